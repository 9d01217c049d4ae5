package transfer

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fixed are the rails that a path reports.
type fixed []transport.Rail

func (f *fixed) Rails() []transport.Rail { return *f }

func railsOf(n int) (*rails, *fixed) {
	cfg := DefaultConfig()
	f := new(fixed)
	for i := range n {
		name := "m" + strconv.Itoa(i)
		*f = append(*f, transport.Rail{ID: transport.RailID(i + 1), Local: name, Remote: name, Up: true})
	}
	r := &rails{cfg: &cfg, railed: f}
	r.refresh()
	return r, f
}

func piece() *slice { return &slice{local: make([]byte, 64<<10), remote: remote{length: 64 << 10}} }

// TestPathWithoutRoomStarvesNoRail: the operation that finds no room in the path may be the
// only one of its rail.
func TestPathWithoutRoomStarvesNoRail(t *testing.T) {
	r, _ := railsOf(2)
	first, second := piece(), piece()
	require.True(t, r.take(first))
	require.True(t, r.take(second))
	require.NotSame(t, first.way, second.way)
	r.untake([]*slice{second}, true)
	used := map[*rail]int{first.way: 1}
	for range 100 {
		s := piece()
		require.True(t, r.take(s))
		used[s.way]++
		s.started = time.Now()
		r.done(s, transport.Completion{Status: transport.OK}, s.started.Add(time.Millisecond))
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
	r.refresh()
	require.Equal(t, railDown, r.look(&bitset{}))
}
