package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// pool mounts one segment for each name. One of the form "host/name" states a host.
func pool(t require.TestingT, names ...string) (*world, []*segments.Segment) {
	w := &world{registry: segments.NewRegistry(), clients: segments.NewClients(), now: 1}
	w.health = segments.NewHealth(w.registry, w.clients)
	var all []*segments.Segment
	for i, name := range names {
		host, short, ok := strings.Cut(name, "/")
		if !ok {
			host, short = "", name
		}
		id := model.UUID{Hi: uint64(i + 1)}
		require.NoError(t, w.clients.Register(id, w.now))
		s, known, err := w.registry.Prepare(id, model.Segment{ID: model.UUID{Lo: uint64(i + 1)}, Name: short, HostID: host, Endpoint: fmt.Sprint(i), Base: 1, Size: 1000})
		require.NoError(t, err)
		require.False(t, known)
		w.registry.Add(s)
		all = append(all, s)
	}
	return w, all
}

type world struct {
	registry *segments.Registry
	clients  *segments.Clients
	health   *segments.Health
	now      lease.Instant
}

func (w *world) view() *segments.View { return w.registry.View() }

// silence makes all owners silent but those of the given segments.
func (w *world) silence(but ...*segments.Segment) {
	w.now = w.now.Add(time.Hour)
	for _, s := range but {
		w.clients.Touch(s.Client, w.now)
	}
	w.health.Tick(w.now)
}

// fail makes a tenth of the transfers with a segment fail, which halves its weight.
func (w *world) fail(s *segments.Segment) {
	w.health.Report(s.Client, model.PingReport{Peers: []model.PeerReport{{Endpoint: s.Endpoint, Done: 9, Failed: 1}}}, w.now)
}

func spaces(segs ...*segments.Segment) []alloc.SpaceID {
	var out []alloc.SpaceID
	for _, s := range segs {
		out = append(out, s.Space)
	}
	return out
}

func TestCopiesNeverShareAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []string
		for range rapid.IntRange(0, 12).Draw(t, "segments") {
			all = append(all, fmt.Sprintf("h%d/n%d", rapid.IntRange(0, 2).Draw(t, "host"), rapid.IntRange(0, 5).Draw(t, "name")))
		}
		w, segs := pool(t, all...)
		for _, s := range segs {
			switch rapid.IntRange(0, 4).Draw(t, "how it is") {
			case 0:
				w.fail(s)
			case 1:
				require.NoError(t, w.registry.SetStatus(s, model.SegmentDraining, 0))
			}
		}
		if rapid.Bool().Draw(t, "silence") {
			w.silence(segs[:len(segs)/2]...)
		}
		v := w.view()
		s, err := New(rapid.SampledFrom(Names()).Draw(t, "strategy"))
		require.NoError(t, err)
		wish := Wish{
			Copies: rapid.IntRange(1, 8).Draw(t, "copies"), Preferred: rapid.SliceOfN(rapid.SampledFrom([]string{"n0", "n3", "n9"}), 0, 3).Draw(t, "preferred"),
			HostID: rapid.SampledFrom([]string{"", "h0", "h1", "x"}).Draw(t, "writer"), SameNode: rapid.Bool().Draw(t, "same node"),
		}
		plan := NewPlanner(v, s, wish)
		awake := map[string]bool{}
		for _, s := range v.Open {
			if s.Weight() > 0 {
				awake[s.Name] = true
			}
		}
		possible := v.Names()
		if len(awake) > 0 && wish.Copies > 1 {
			possible = len(awake)
		}
		require.Equal(t, min(wish.Copies, possible), plan.Copies())
		owner, seen := map[string]int{}, map[alloc.SpaceID]bool{}
		lists := plan.For(rapid.String().Draw(t, "key")).First(nil)
		require.Len(t, lists, plan.Copies())
		for i, list := range lists {
			require.NotEmpty(t, list)
			for _, id := range list {
				require.False(t, seen[id], "named twice")
				seen[id] = true
				require.True(t, v.Space(id).Allocatable(), "it takes no objects")
				name := v.Space(id).Name
				if j, ok := owner[name]; ok {
					require.Equal(t, j, i, "two copies could meet on %s", name)
				}
				owner[name] = i
			}
		}
		if plan.Copies() > 0 {
			want := 0
			for _, s := range v.Open {
				if len(awake) == 0 || s.Weight() > 0 || slices.Contains(wish.Preferred, s.Name) {
					want++
				}
			}
			require.Len(t, seen, want, "weights and hosts order, they refuse silent nodes only")
			taken := v.Space(lists[0][0])
			for _, id := range plan.Rest([]*segments.Segment{taken}) {
				require.NotEqual(t, taken.Name, v.Space(id).Name)
			}
		}
	})
}

func TestAListIsNeverEmpty(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("n", i/150))
	}
	w, _ := pool(t, names...)
	few := false
	for range 100 {
		plan := NewPlanner(w.view(), Random{}, Wish{Copies: 2})
		lists := plan.First(nil)
		for _, l := range lists {
			require.NotEmpty(t, l)
		}
		if len(lists) == 1 {
			few = true
			require.Equal(t, 2, plan.Copies())
		}
	}
	require.True(t, few, "most of the time a hundred in a row carry one name")
}

func TestPreferredComeFirst(t *testing.T) {
	w, all := pool(t, "a", "b", "c", "b", "b")
	require.NoError(t, w.registry.SetStatus(all[4], model.SegmentDraining, 0))
	for _, s := range []Strategy{Random{}, LocalFirst{}} {
		plan := NewPlanner(w.view(), s, Wish{Copies: 1, Preferred: []string{"b", "nowhere", "a"}, HostID: "c"})
		require.Equal(t, spaces(all[1], all[3], all[0], all[2]), plan.First(nil)[0])
	}
	plan, first := NewPlanner(w.view(), LocalFirst{}, Wish{Copies: 1, Preferred: []string{"nowhere"}, HostID: "c"}), map[alloc.SpaceID]bool{}
	for range 100 {
		first[plan.First(nil)[0][0]] = true
	}
	require.Len(t, first, 4, "what is preferred takes the place of what is near")
}

func TestRandomStartsEverywhereAndIsBounded(t *testing.T) {
	var all []string
	for i := range 150 {
		all = append(all, fmt.Sprint(i))
	}
	w, segs := pool(t, all...)
	for _, uneven := range []bool{false, true} {
		if uneven {
			w.fail(segs[0])
		}
		require.Equal(t, !uneven, w.view().Even())
		starts := map[alloc.SpaceID]bool{}
		for range 3000 {
			list := Random{}.Order(w.view(), Object{}, nil)
			require.Len(t, list, maxTries)
			starts[list[0]] = true
		}
		require.Greater(t, len(starts), 140)
	}
}

// heads counts which segment comes first in many orders.
func heads(v *segments.View, s Strategy, o Object, n int) map[alloc.SpaceID]int {
	first := map[alloc.SpaceID]int{}
	for range n {
		first[s.Order(v, o, nil)[0]]++
	}
	return first
}

func TestRandomGoesByWeight(t *testing.T) {
	w, all := pool(t, "a", "b", "c", "d")
	w.fail(all[1])
	first := heads(w.view(), Random{}, Object{}, 7000)
	require.InDelta(t, 1000, first[all[1].Space], 200, "half the share of the others")
	for _, s := range []*segments.Segment{all[0], all[2], all[3]} {
		require.InDelta(t, 2000, first[s.Space], 250, "and what it does not get is spread evenly")
	}
}

func TestSilentOnesAreTheLastResort(t *testing.T) {
	w, all := pool(t, "h1/a", "h2/b", "h3/c", "h4/d")
	w.silence(all[2])
	v := w.view()
	for _, name := range Names() {
		s, err := New(name)
		require.NoError(t, err)
		for range 50 {
			require.Equal(t, spaces(all[2]), s.Order(v, Object{Host: "h1", Copies: 1}, nil), name)
		}
	}
	w.silence()
	for _, name := range Names() {
		s, err := New(name)
		require.NoError(t, err)
		require.Len(t, s.Order(w.view(), Object{Host: "h1"}, nil), 4, "a pool that is silent as a whole can be used")
	}
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("h", i, "/n"))
	}
	many, segs := pool(t, names...)
	many.silence(segs[:10]...)
	for _, name := range Names() {
		s, err := New(name)
		require.NoError(t, err)
		list := s.Order(many.view(), Object{Host: "h1", Copies: 1}, nil)
		require.ElementsMatch(t, spaces(segs[:10]...), list[:10], name)
	}
	one, _ := pool(t, "a")
	one.silence()
	require.Len(t, NewPlanner(one.view(), Random{}, Wish{Copies: 1}).First(nil)[0], 1)
}

// TestCopiesDoNotNeedSilentNodes: a put asks for fewer copies rather than for one on a node that does
// not answer.
func TestCopiesDoNotNeedSilentNodes(t *testing.T) {
	w, all := pool(t, "a", "b", "c")
	lists := func(copies int) [][]alloc.SpaceID {
		return NewPlanner(w.view(), Random{}, Wish{Copies: copies}).First(nil)
	}
	require.Len(t, lists(3), 3)
	w.silence(all[:2]...)
	require.Len(t, lists(3), 2)
	for _, list := range lists(2) {
		require.NotEqual(t, all[2].Space, list[0])
	}
	w.silence(all[0])
	require.Len(t, lists(2), 1)
	require.Equal(t, all[0].Space, lists(2)[0][0])
	w.silence()
	require.Len(t, lists(2), 2, "a pool that is silent as a whole can be used")
}

func TestFreeRatioFirst(t *testing.T) {
	w, all := pool(t, "a", "b", "c", "d")
	for i, s := range all {
		s.Take(uint64(100 * (4 - i)))
	}
	list := FreeRatioFirst{}.Order(w.view(), Object{}, nil)
	require.Equal(t, spaces(all[3], all[2], all[1], all[0]), list)
	require.True(t, slices.Equal(list, FreeRatioFirst{}.Order(w.view(), Object{}, list)), "scratch can be used again")
	w.fail(all[3])
	require.Equal(t, spaces(all[2], all[1], all[0], all[3]), FreeRatioFirst{}.Order(w.view(), Object{}, nil), "0.9 free, half of it counts")
}

// TestFreeTiersFirst: how full the storage tiers of a node are decides, whatever memory holds; a node without tiers counts as one
// whose tiers are empty.
func TestFreeTiersFirst(t *testing.T) {
	w, all := pool(t, "a", "b", "c")
	for i, s := range all[:2] {
		for n := range 2 {
			id := model.UUID{Hi: uint64(i + 1), Lo: uint64(50 + n)}
			tier, _, err := w.registry.Prepare(s.Client, model.Segment{ID: id, Name: fmt.Sprint(s.Name, "/tier", n), Base: uint64(n+1) << 50, Size: 500, Protocol: model.ProtocolTier})
			require.NoError(t, err)
			w.registry.Add(tier)
			tier.Take(uint64(100 * (2 - i)))
		}
	}
	all[2].Take(999)
	list := FreeRatioFirst{OnTiers: true}.Order(w.view(), Object{}, nil)
	require.Equal(t, spaces(all[2], all[1], all[0]), list)
}

func TestAnEmptyNodeDoesNotGetEverything(t *testing.T) {
	w, all := pool(t, "a", "b", "c")
	for _, s := range all {
		s.Take(600)
	}
	id := model.UUID{Hi: 99}
	require.NoError(t, w.clients.Register(id, w.now))
	late, _, err := w.registry.Prepare(id, model.Segment{ID: id, Name: "late", Base: 1, Size: 1000})
	require.NoError(t, err)
	w.health.Mount(late, w.now)
	w.registry.Add(late)
	require.Zero(t, heads(w.view(), FreeRatioFirst{}, Object{}, 100)[late.Space])
	w.now = w.now.Add(10 * time.Second)
	for _, s := range append(all, late) {
		w.clients.Touch(s.Client, w.now)
	}
	w.health.Tick(w.now)
	require.Equal(t, 100, heads(w.view(), FreeRatioFirst{}, Object{}, 100)[late.Space], "later it is the emptiest")
}

func TestUnknownStrategy(t *testing.T) {
	_, err := New("cxl")
	require.ErrorContains(t, err, `"cxl" is not one of random, free_ratio_first, ssd_free_ratio_first, local_first`)
}
