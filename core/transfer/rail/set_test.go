package rail

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fixed are the rails that a path reports.
type fixed []transport.Rail

func (f *fixed) Rails() []transport.Rail { return *f }

func railsOf(n int) (*Set, *fixed) {
	cfg := settings.DefaultConfig()
	f := new(fixed)
	for i := range n {
		name := "m" + strconv.Itoa(i)
		*f = append(*f, transport.Rail{ID: transport.RailID(i + 1), Local: name, Remote: name, Up: true})
	}
	r := &Set{cfg: &cfg, railed: f}
	r.Refresh()
	return r, f
}

// sliceSize is the size of a slice in these tests.
const sliceSize = 64 << 10

// TestPathWithoutRoomStarvesNoRail: the operation that finds no room in the path may be the
// only one of its rail.
func TestPathWithoutRoomStarvesNoRail(t *testing.T) {
	r, _ := railsOf(2)
	first, second := new(Claim), new(Claim)
	require.True(t, r.Take(first, sliceSize, Places{}))
	require.True(t, r.Take(second, sliceSize, Places{}))
	require.NotSame(t, first.Rail, second.Rail)
	r.Untake(1, func(int) *Claim { return second }, true)
	used := map[*rail]int{first.Rail: 1}
	for range 100 {
		s := new(Claim)
		require.True(t, r.Take(s, sliceSize, Places{}))
		used[s.Rail]++
		s.Started = time.Now()
		r.Done(s, transport.Completion{Status: transport.OK}, s.Started.Add(time.Millisecond))
	}
	require.Len(t, used, 2)
}

// TestRailsBeyondTheBound do not hide what becomes of the others.
func TestRailsBeyondTheBound(t *testing.T) {
	r, f := railsOf(maxRails)
	*f = append(fixed{{ID: maxRails + 1, Up: true}}, *f...)
	for i := range *f {
		(*f)[i].Up = false
	}
	r.Refresh()
	require.Equal(t, Down, r.Look(&Bitset{}))
}

// TestCrowdedRail: a rail has no more in flight than it can move in a while at the speed that was
// measured, little before any was, and always something.
func TestCrowdedRail(t *testing.T) {
	r, _ := railsOf(1)
	flying := []*Claim{}
	fill := func() (bytes int64) {
		for {
			s := new(Claim)
			if !r.Take(s, sliceSize, Places{}) {
				require.True(t, s.Crowded)
				return r.list[0].bytes
			}
			s.Started = time.Now()
			flying = append(flying, s)
		}
	}
	require.EqualValues(t, startBytes, fill(), "nothing is known yet")
	// They come back one after the other, at 1 MB a second.
	for _, s := range flying {
		r.Done(s, transport.Completion{Status: transport.OK}, s.Started.Add(time.Duration(s.queued)*time.Microsecond))
	}
	flying = nil
	most := int64(1e6 * (r.cfg.SliceTimeout / ahead).Seconds())
	got := fill()
	require.LessOrEqual(t, got, most)
	require.Greater(t, got, most*3/4)
	for _, s := range flying {
		r.Done(s, transport.Completion{Status: transport.Failed, Err: errors.New("no")}, time.Now())
	}
	whole := new(Claim)
	require.True(t, r.Take(whole, 1<<24, Places{}), "an idle rail takes anything")
	require.Greater(t, whole.Eta, 10*time.Second)
}

// TestPeak: one slow operation, such as the first, does not hold a rail down, and a rail that has
// become slow is found out.
func TestPeak(t *testing.T) {
	var s speed
	s.sample(1e6, 10*time.Second) // With the time to connect.
	s.sample(1e6, 100*time.Millisecond)
	require.InEpsilon(t, 1e7, s.peak, 0.01)
	for range 100 {
		s.sample(1e6, time.Second)
	}
	require.InEpsilon(t, 1e6, s.peak, 0.2)
	require.LessOrEqual(t, s.mean, s.peak)
}

// TestPortion: several slices fit what a slow rail may have in flight; a fast one, and one that was
// never measured, sets no bound.
func TestPortion(t *testing.T) {
	r, _ := railsOf(1)
	require.Greater(t, r.Portion(), r.cfg.SliceSize, "nothing is known yet")
	w := r.list[0]
	w.speed.sample(300_000, time.Second)
	got := r.Portion()
	require.Zero(t, got%4096)
	require.InDelta(t, 300_000*(r.cfg.SliceTimeout/ahead).Seconds()/portions, got, 4096)
	w.speed.peak = 1e9
	require.Greater(t, r.Portion(), r.cfg.SliceSize)
	w.speed.peak = 1e18
	require.Positive(t, r.Portion())
}
