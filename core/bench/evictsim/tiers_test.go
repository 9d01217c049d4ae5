package evictsim_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// simulateTiers has LRU in memory and in the tier, and returns what the policies were told.
func simulateTiers(t require.TestingT, reqs [][]uint64, memory, tier, promotion int) (evictsim.Hits, [2][]evict.Event) {
	m := &auditor{Policy: newPolicy(t, lru.Factory()), t: t, held: map[evict.ID]uint64{}, capacity: memory}
	s := &auditor{Policy: newPolicy(t, lru.Factory()), t: t, held: map[evict.ID]uint64{}, capacity: tier}
	got, err := evictsim.SimulateCells(context.Background(), load(t, reqs...), []evict.Policy{m}, memory,
		&evictsim.Tier{Policy: s, Capacity: tier, Promotion: promotion})
	require.NoError(t, err)
	return got, [2][]evict.Event{m.calls, s.calls}
}

func TestTiersByHand(t *testing.T) {
	for _, c := range []struct {
		name                    string
		memory, tier, promotion int
		blocks                  []uint64 // each is a request
		want                    evictsim.Hits
	}{
		{
			"a block is promoted at its second hit in the tier, and not written again", 1, 3, 2,
			[]uint64{1, 2, 1, 1, 1},
			evictsim.Hits{Blocks: 3, Prefix: 3, Tier: 2, Promotions: 1, Writes: 2},
		},
		{
			"a block is promoted at its first hit", 1, 3, 1,
			[]uint64{1, 2, 1, 1, 1},
			evictsim.Hits{Blocks: 3, Prefix: 3, Tier: 1, Promotions: 1, Writes: 2},
		},
		{
			"a block is promoted at each hit from the second on", 1, 3, 2,
			[]uint64{1, 2, 1, 1, 2, 2, 1, 1}, // the last is a hit in memory
			evictsim.Hits{Blocks: 6, Prefix: 6, Tier: 5, Promotions: 3, Writes: 2},
		},
		{
			"a block that is written again counts from nothing", 1, 2, 2,
			[]uint64{1, 2, 1, 3, 4, 1, 5, 1, 5}, // 3 and 4 leave no space for 1; 5 stays in memory
			evictsim.Hits{Blocks: 3, Prefix: 3, Tier: 2, Writes: 6},
		},
		{
			"a hit in memory is none in the tier, which evicts 1", 2, 2, 2,
			[]uint64{1, 2, 1, 3, 2, 1},
			evictsim.Hits{Blocks: 3, Prefix: 3, Tier: 1, Writes: 3},
		},
		{
			"a block that has left the tier stays in memory, and is not written again", 2, 1, 2,
			[]uint64{1, 2, 1, 3, 1, 2},
			evictsim.Hits{Blocks: 2, Prefix: 2, Writes: 4},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reqs [][]uint64
			for _, b := range c.blocks {
				reqs = append(reqs, []uint64{b})
			}
			got, _ := simulateTiers(t, reqs, c.memory, c.tier, c.promotion)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTierHitBehindAGap(t *testing.T) {
	got, _ := simulateTiers(t, [][]uint64{{1}, {2}, {9, 1}, {2, 9}}, 1, 3, 2) // 1 is behind a gap, 9 in memory
	require.Equal(t, evictsim.Hits{Blocks: 3, Prefix: 2, Tier: 1, Writes: 3}, got)
}

func TestTierEvents(t *testing.T) {
	_, calls := simulateTiers(t, [][]uint64{{7, 8}, {9}, {8, 7}, {9, 8, 7}}, 1, 3, 2)
	for _, events := range calls {
		for i := range events {
			require.Equal(t, events[i].Op == evict.Insert, events[i].Fingerprint != 0)
			events[i].Fingerprint = 0
		}
	}
	require.Equal(t, []evict.Event{
		{Op: evict.Insert, ID: 1, Size: 1},
		{Op: evict.Insert, ID: 2, Size: 1}, // 7 had to go for 8
		{Op: evict.Insert, ID: 3, Size: 1},
		{Op: evict.Access, ID: 3},
		{Op: evict.Insert, ID: 4, Size: 1}, // 8 is promoted
		{Op: evict.Insert, ID: 5, Size: 1},
	}, calls[0])
	require.Equal(t, []evict.Event{
		{Op: evict.Insert, ID: 1, Size: 1},
		{Op: evict.Insert, ID: 2, Size: 1, Parent: 1},
		{Op: evict.Insert, ID: 3, Size: 1},
		{Op: evict.Access, ID: 2},
		{Op: evict.Access, ID: 1, Parent: 2},
		{Op: evict.Access, ID: 2, Parent: 3}, // 9 is hit in memory, and the parent nevertheless
		{Op: evict.Access, ID: 1, Parent: 2},
	}, calls[1])
}

// TestTiersKeepTheContract checks the calls to both policies (auditor), and the counts against each other.
func TestTiersKeepTheContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reqs := requests(t)
		memory, tier := rapid.IntRange(1, 10).Draw(t, "memory"), rapid.IntRange(1, 25).Draw(t, "tier")
		got, calls := simulateTiers(t, reqs, memory, tier, rapid.IntRange(1, 3).Draw(t, "promotion"))
		tr := load(t, reqs...)
		inserts := [2]int{}
		for i, events := range calls {
			for _, ev := range events {
				if ev.Op == evict.Insert {
					inserts[i]++
				}
			}
		}
		missed := tr.Blocks() - got.Blocks
		require.Equal(t, [2]int{missed + got.Promotions, missed}, inserts)
		require.Equal(t, missed, got.Writes, "each block that is in neither is written once")
		require.LessOrEqual(t, got.Tier, got.Prefix)
		require.LessOrEqual(t, got.Prefix, got.Blocks)
		require.LessOrEqual(t, got.Blocks, evictsim.Optimum(tr, memory+tier).Blocks)
	})
}

// TestOneTierBehindAllCells: the tier is not cut, so that a tier with space for all blocks hits them all.
func TestOneTierBehindAllCells(t *testing.T) {
	tr := load(t, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
	cells := []evict.Policy{newPolicy(t, lru.Factory()), newPolicy(t, lru.Factory()), newPolicy(t, lru.Factory())}
	got, err := evictsim.SimulateCells(t.Context(), tr, cells, 3, &evictsim.Tier{Policy: newPolicy(t, lru.Factory()), Capacity: 8, Promotion: 2})
	require.NoError(t, err)
	require.Equal(t, [3]int{8, 8, 8}, [3]int{got.Blocks, got.Prefix, got.Writes})
	require.GreaterOrEqual(t, got.Tier, 5)
}

func TestFaultyTierPolicy(t *testing.T) {
	died := errors.New("the process died")
	bad := faulty{Policy: newPolicy(t, lru.Factory()), err: died}
	_, err := evictsim.SimulateCells(t.Context(), load(t, []uint64{1, 2}), []evict.Policy{newPolicy(t, lru.Factory())}, 1,
		&evictsim.Tier{Policy: bad, Capacity: 1, Promotion: 2})
	require.ErrorIs(t, err, died)
	require.EqualError(t, err, "tier: propose: the process died")
}
