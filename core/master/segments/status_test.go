package segments

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func mount(t require.TestingT, r *Registry, client, id uint64, name, host string) *Segment {
	s, known, err := r.Prepare(model.UUID{Hi: client}, model.Segment{
		ID: model.UUID{Lo: id}, Name: name, Endpoint: "at " + name, HostID: host, Base: id << 20, Size: 1000,
	})
	require.NoError(t, err)
	require.False(t, known)
	r.Add(s)
	return s
}

var statuses = []model.SegmentStatus{
	model.SegmentUndefined, model.SegmentOK, model.SegmentDraining, model.SegmentDrained, model.SegmentGracefullyUnmounting, model.SegmentUnmounting, 99,
}

func TestStatusTransitions(t *testing.T) {
	ways := map[model.SegmentStatus][]model.SegmentStatus{
		model.SegmentOK:                   {model.SegmentDraining, model.SegmentGracefullyUnmounting},
		model.SegmentDraining:             {model.SegmentOK, model.SegmentDrained, model.SegmentGracefullyUnmounting},
		model.SegmentDrained:              {model.SegmentGracefullyUnmounting},
		model.SegmentGracefullyUnmounting: {},
	}
	path := map[model.SegmentStatus][]model.SegmentStatus{
		model.SegmentOK: nil, model.SegmentDraining: {model.SegmentDraining},
		model.SegmentDrained:              {model.SegmentDraining, model.SegmentDrained},
		model.SegmentGracefullyUnmounting: {model.SegmentGracefullyUnmounting},
	}
	for from, steps := range path {
		for _, to := range statuses {
			t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) {
				r := NewRegistry()
				s := mount(t, r, 1, 1, "n", "h")
				for _, step := range steps {
					require.NoError(t, r.SetStatus(s, step, 0))
				}
				require.Equal(t, from, s.Status())
				err := r.SetStatus(s, to, 0)
				if from == to || slices.Contains(ways[from], to) {
					require.NoError(t, err)
					require.Equal(t, to, s.Status())
				} else {
					require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
					require.Equal(t, from, s.Status())
				}
				require.True(t, s.Alive())
				require.Equal(t, s.Status() == model.SegmentOK, s.Allocatable())
				r.Remove(s)
				require.Equal(t, model.SegmentUnmounting, s.Status())
				require.False(t, s.Allocatable())
				require.Equal(t, errs.SegmentNotFound, errs.CodeOf(r.SetStatus(s, model.SegmentOK, 0)))
			})
		}
	}
}

func TestGracefulUnmountsBecomeDue(t *testing.T) {
	r := NewRegistry()
	a, b := mount(t, r, 1, 1, "a", ""), mount(t, r, 1, 2, "b", "")
	at := func(s int) lease.Instant { return lease.Instant(1).Add(time.Duration(s) * time.Second) }
	require.NoError(t, r.SetStatus(a, model.SegmentGracefullyUnmounting, at(10)))
	require.NoError(t, r.SetStatus(b, model.SegmentGracefullyUnmounting, at(20)))
	require.NoError(t, r.SetStatus(b, model.SegmentGracefullyUnmounting, at(30)))
	require.Equal(t, at(20), b.Deadline(), "the earlier one counts")
	require.Empty(t, r.Due(at(10)-1))
	require.Equal(t, []*Segment{a}, r.Due(at(10)))
	require.NoError(t, r.SetStatus(b, model.SegmentGracefullyUnmounting, at(5)))
	require.Equal(t, []*Segment{a, b}, r.Due(at(10)))
	r.Remove(a)
	require.Equal(t, []*Segment{b}, r.Due(at(10)))
}

// TestViewsFollowAModel checks the lists of the view after random histories.
func TestViewsFollowAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRegistry()
		var live []*Segment
		next := uint64(0)
		pick := func(t *rapid.T) *Segment {
			if len(live) == 0 {
				t.Skip("nothing is mounted")
			}
			return rapid.SampledFrom(live).Draw(t, "segment")
		}
		t.Repeat(map[string]func(*rapid.T){
			"mount": func(t *rapid.T) {
				next++
				n := rapid.IntRange(0, 3).Draw(t, "name")
				live = append(live, mount(t, r, rapid.Uint64Range(1, 3).Draw(t, "client"), next, fmt.Sprint("n", n), []string{"", "h1", "h0"}[n%3]))
			},
			"remove": func(t *rapid.T) {
				s := pick(t)
				r.Remove(s)
				live = slices.DeleteFunc(live, func(o *Segment) bool { return o == s })
			},
			"status": func(t *rapid.T) {
				s := pick(t)
				before, was := r.View(), slices.Clone(r.View().Open)
				_ = r.SetStatus(s, rapid.SampledFrom(statuses).Draw(t, "to"), 0)
				require.Equal(t, was, before.Open, "a view never changes")
			},
			"": func(t *rapid.T) {
				v := r.View()
				require.True(t, slices.Equal(live, v.All))
				names, hosts, open := map[string]int{}, map[string]int{}, 0
				for _, s := range live {
					require.Contains(t, v.Named(s.Name), s)
					require.Contains(t, v.OfClient(s.Client), s)
					require.Contains(t, v.At("at "+s.Name), s)
					require.Equal(t, s, v.Space(s.Space))
					if s.Status() != model.SegmentOK {
						require.NotContains(t, v.Open, s)
						require.NotContains(t, v.OpenOn(s.Host()), s)
						continue
					}
					require.Equal(t, s, v.Open[open])
					require.Equal(t, s.Space, v.Ring[open])
					open++
					names[s.Name]++
					hosts[s.Host()]++
				}
				require.Len(t, v.Open, open)
				require.Equal(t, v.Ring[:open], v.Ring[open:])
				require.Equal(t, len(names), v.Names())
				require.True(t, slices.IsSorted(v.Hosts))
				require.Len(t, v.Hosts, len(hosts))
				for h, n := range hosts {
					require.Len(t, v.OpenOn(h), n)
				}
				require.Equal(t, uint64(1000*len(live)), v.Capacity)
				require.Equal(t, uint64(1000*min(open, 1)), v.Largest)
			},
		})
	})
}

func TestASegmentWithoutAHostIsItsOwn(t *testing.T) {
	r := NewRegistry()
	a := mount(t, r, 1, 1, "127.0.0.1:1", "")
	b := mount(t, r, 2, 2, "10.0.0.1:1", "10.0.0.1")
	require.Equal(t, []string{"10.0.0.1", "127.0.0.1:1"}, r.View().Hosts)
	require.Equal(t, []*Segment{a}, r.View().OpenOn("127.0.0.1:1"))
	require.Equal(t, []*Segment{b}, r.View().OpenOn("10.0.0.1"))
}
