package objects

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

func (t *Table) sweepAll(bin *Bin) (gone int) {
	for at, more := Cursor(0), true; more; more = at != 0 {
		n := 0
		n, at = t.Sweep(at, bin)
		gone += n
	}
	return gone
}

// fill puts n objects of a shard, on two segments in turn.
func (r *rig) fill(shard uint64, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := strconv.Itoa(i); r.Print(key)%Shards == shard {
			r.put(key, Settings{}, len(keys)%2)
			keys = append(keys, key)
		}
	}
	return keys
}

// However many objects a shard has, its lock is let go after a few hundred of them.
func TestAStepOfAWalkIsBounded(t *testing.T) {
	r := newRig(t)
	var want []string
	for _, shard := range []uint64{0, 7, 8, Shards - 1} {
		want = append(want, r.fill(shard, walkPiece+10)...)
	}
	var got []string
	steps := 0
	for at, more := Cursor(0), true; more; more = at != 0 {
		head := len(got)
		got, at = r.Keys(at, false, got)
		require.LessOrEqual(t, len(got)-head, walkPiece)
		steps++
	}
	require.ElementsMatch(t, want, got, "each once")
	require.Equal(t, 5, steps)

	found := 0
	for at, more := Cursor(0), true; more; more = at != 0 {
		var page []Located
		page, at = r.On(at, "s1", second, nil)
		require.LessOrEqual(t, len(page), walkPiece)
		found += len(page)
	}
	require.Equal(t, len(want)/2, found)

	r.segs[0].Kill()
	gone, bin := 0, Bin{}
	for at, more := Cursor(0), true; more; more = at != 0 {
		bin.Reset()
		n := 0
		n, at = r.Sweep(at, &bin)
		require.LessOrEqual(t, n, walkPiece)
		gone += n
	}
	require.Equal(t, len(want)/2, gone)
	require.Zero(t, r.sweepAll(&bin))
	var live []segments.Extent
	for at, more := Cursor(0), true; more; more = at != 0 {
		head := len(live)
		live, at = r.Extents(at, live)
		require.LessOrEqual(t, len(live)-head, walkPiece)
	}
	require.Len(t, live, len(want)/2)
}

// The order comes in small pieces; what happens meanwhile is left out or left to the
// events, and nothing is in both.
func TestTheRankingAndLaterEventsMakeAWhole(t *testing.T) {
	r := newRig(t)
	a, b, c := r.put("a", Settings{}, 0), r.put("b", Settings{}, 0), r.put("c", Settings{}, 0)
	r.put("pinned", Settings{HardPin: true}, 0)
	r.Exist("a", Grant{Rank: true})
	ranks := r.Ranking()
	require.Len(t, ranks, 3)
	require.Equal(t, []evict.ID{b, c, a}, []evict.ID{ranks[0].ID, ranks[1].ID, ranks[2].ID})
	require.Empty(t, r.Drain(new(DrainBuffer)), "it is part of the order")

	require.Equal(t, Done, r.Remove("c", second, true, &Bin{}))
	d := r.put("d", Settings{}, 0)
	events := r.Inserts(ranks, false, nil)
	require.Equal(t, []evict.Event{
		{Op: evict.Insert, ID: b, Size: 8, Fingerprint: r.Print("b")}, {Op: evict.Insert, ID: a, Size: 8, Fingerprint: r.Print("a")},
	}, events)
	anew := r.Inserts(ranks[:1], true, nil)
	require.Equal(t, []evict.Event{{Op: evict.Remove, ID: b}, events[0]}, anew)
	later := r.Drain(new(DrainBuffer))
	require.Len(t, later, 2)
	require.Equal(t, evict.Event{Op: evict.Remove, ID: c}, later[0].Event)
	require.Equal(t, d, later[1].ID)
}

// What was decided about the old value of an object does not hit the new one.
func TestAnUpsertInPlaceIsAnObjectOfItsOwn(t *testing.T) {
	r := newRig(t)
	old, mate := r.put("k", Settings{Group: "g"}, 0), r.put("mate", Settings{Group: "g"}, 0)
	_, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client, Settings: Settings{Group: "g"}}, 1, second, nil)
	require.Equal(t, Done, out)
	again, _, out := r.Finish("k", 0, r.client, model.Checksum{}, second, 0)
	require.Equal(t, Done, out)
	require.NotEqual(t, old, again)
	_, _, out = r.Evict(old, second, Rules{}, false, &Bin{}, nil)
	require.Equal(t, Missing, out)
	known := map[evict.ID]bool{}
	for _, x := range r.Drain(new(DrainBuffer)) {
		known[x.ID] = x.Op != evict.Remove
	}
	require.Equal(t, map[evict.ID]bool{old: false, mate: true, again: true}, known)
	mates, _, out := r.Evict(mate, second, Rules{}, false, &Bin{}, nil)
	require.Equal(t, Done, out)
	require.Equal(t, []evict.ID{again}, mates, "it is in the group under its new ID")
}

// A group goes in one go, so it has a limit.
func TestAGroupHasALimit(t *testing.T) {
	r := newRig(t)
	first := r.put("first", Settings{Group: "g"}, 0)
	g := r.groups.byName["g"]
	for i := range MaxGroup - 1 {
		g.members[evict.ID(1<<60+i)] = struct{}{}
	}
	put := func(key, group string, replace bool) Outcome {
		n := NewObject{Key: key, Size: 8, Client: r.client, Copies: r.at(8, 0), Settings: Settings{Group: group}, Replace: replace}
		_, out := r.Put(&n, second, patience, nil, &Bin{})
		return out
	}
	require.Equal(t, GroupFull, put("one more", "g", false))
	require.Equal(t, Done, put("one more", "h", false))
	require.Equal(t, Done, put("first", "g", true), "it is a member already")
	require.NotContains(t, g.members, first)
	require.Len(t, g.members, MaxGroup)
	require.Equal(t, GroupFull, put("another", "g", true))
	g.members = map[evict.ID]struct{}{}
	require.Equal(t, Done, put("another", "g", false))
}

// Numbers that lie close together, far apart, or mostly in one place come in order.
func TestRanksAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		most := rapid.SampledFrom([]uint64{1, 1 << 10, 1 << 40, math.MaxUint64}).Draw(t, "most")
		skew := rapid.IntRange(1, 3).Draw(t, "skew")
		got := make([]Rank, rapid.SampledFrom([]int{0, 1, 100, 1 << 14, 1<<14 + 77}).Draw(t, "n"))
		for i := range got {
			got[i] = Rank{Seq: rng.Uint64N(most) >> (8 * rng.IntN(skew)), ID: evict.ID(i)}
		}
		want := slices.Clone(got)
		slices.SortFunc(want, bySeq)
		sortRanks(got)
		for i := range got {
			require.Equal(t, want[i].Seq, got[i].Seq)
		}
		slices.SortFunc(got, func(a, b Rank) int { return cmp.Compare(a.ID, b.ID) })
		for i := range got {
			require.EqualValues(t, i, got[i].ID, "each once")
		}
	})
}

// A walk visits a key once that is readable from its first step to its last, whatever comes and goes meanwhile. Any other key that it
// visits was readable in some step.
func TestAWalkWhileObjectsComeAndGo(t *testing.T) {
	r := newRig(t)
	var keys []string
	for i := 0; len(keys) < 2*walkPiece; i++ { // in one shard, where steps meet
		if key := strconv.Itoa(i); r.Print(key)%Shards == 5 {
			keys = append(keys, key)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, key := range keys {
			r.Remove(key, second, true, &Bin{})
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		there, ever, stable := map[string]bool{}, map[string]bool{}, map[string]bool{}
		change := func(n int) {
			for range n {
				key := keys[rng.IntN(len(keys))]
				delete(stable, key)
				if there[key] = !there[key]; !there[key] {
					require.Equal(t, Done, r.Remove(key, second, true, &Bin{}))
					continue
				}
				ever[key] = true
				r.put(key, Settings{}, 0)
			}
		}
		for _, key := range keys {
			r.put(key, Settings{}, 0)
			there[key], ever[key] = true, true
		}
		change(rapid.IntRange(0, walkPiece).Draw(t, "before"))
		for key, is := range there {
			if is {
				stable[key] = true
			}
		}
		visits := map[string]int{}
		for at, more := Cursor(0), true; more; more = at != 0 {
			var got []string
			got, at = r.Keys(at, false, nil)
			for _, key := range got {
				require.True(t, ever[key], "%s was never readable", key)
				visits[key]++
			}
			change(rapid.IntRange(0, walkPiece).Draw(t, "between"))
		}
		for key := range stable {
			require.Equal(t, 1, visits[key], key)
		}
	})
}
