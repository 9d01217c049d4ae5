package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// pool mounts one segment for each name.
func pool(t require.TestingT, names ...string) (*segments.View, []*segments.Segment) {
	r := segments.NewRegistry()
	var all []*segments.Segment
	for i, name := range names {
		s, known, err := r.Prepare(model.UUID{Hi: uint64(i + 1)}, model.Segment{ID: model.UUID{Lo: uint64(i + 1)}, Name: name, Base: 1, Size: 1000})
		require.NoError(t, err)
		require.False(t, known)
		r.Add(s)
		all = append(all, s)
	}
	return r.View(), all
}

func TestCopiesNeverShareAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []string
		for range rapid.IntRange(0, 12).Draw(t, "segments") {
			all = append(all, fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(t, "name")))
		}
		v, _ := pool(t, all...)
		s, err := New(rapid.SampledFrom(Names()).Draw(t, "strategy"))
		require.NoError(t, err)
		w := Wish{Copies: rapid.IntRange(1, 8).Draw(t, "copies"), Preferred: rapid.SliceOfN(rapid.SampledFrom([]string{"n0", "n3", "n9"}), 0, 3).Draw(t, "preferred")}
		plan := NewPlanner(v, s, w)
		require.Equal(t, min(w.Copies, v.Names()), plan.Copies())
		owner, seen := map[string]int{}, map[alloc.SpaceID]bool{}
		lists := plan.First(nil)
		require.Len(t, lists, plan.Copies())
		for i, list := range lists {
			require.NotEmpty(t, list)
			for _, id := range list {
				require.False(t, seen[id], "named twice")
				seen[id] = true
				name := v.Space(id).Name
				if j, ok := owner[name]; ok {
					require.Equal(t, j, i, "two copies could meet on %s", name)
				}
				owner[name] = i
			}
		}
		if plan.Copies() > 0 {
			require.Len(t, seen, len(v.All), "every segment may be used")
			taken := v.Space(lists[0][0])
			for _, id := range plan.Rest([]*segments.Segment{taken}) {
				require.NotEqual(t, taken.Name, v.Space(id).Name)
			}
		}
	})
}

func TestPreferredComeFirst(t *testing.T) {
	v, all := pool(t, "a", "b", "c", "b")
	plan := NewPlanner(v, Random{}, Wish{Copies: 1, Preferred: []string{"b", "nowhere", "a"}})
	list := plan.First(nil)[0]
	require.Equal(t, []alloc.SpaceID{all[1].Space, all[3].Space, all[0].Space, all[2].Space}, list)
}

func TestRandomStartsEverywhereAndIsBounded(t *testing.T) {
	var all []string
	for i := range 150 {
		all = append(all, fmt.Sprint(i))
	}
	v, _ := pool(t, all...)
	starts := map[alloc.SpaceID]bool{}
	for range 3000 {
		list := Random{}.Order(v, nil)
		require.Len(t, list, maxTries)
		starts[list[0]] = true
	}
	require.Greater(t, len(starts), 140)
}

func TestFreeRatioFirst(t *testing.T) {
	v, all := pool(t, "a", "b", "c", "d")
	for i, s := range all {
		s.Take(uint64(100 * (4 - i)))
	}
	list := FreeRatioFirst{}.Order(v, nil)
	want := []alloc.SpaceID{all[3].Space, all[2].Space, all[1].Space, all[0].Space}
	require.Equal(t, want, list)
	require.True(t, slices.Equal(list, FreeRatioFirst{}.Order(v, list)), "scratch can be used again")
}

func TestUnknownStrategy(t *testing.T) {
	_, err := New("local_first")
	require.ErrorContains(t, err, `"local_first" is not one of random, free_ratio_first`)
}
