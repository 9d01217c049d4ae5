package evictsim

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func hits(hit []bool) (n int) {
	for _, h := range hit {
		if h {
			n++
		}
	}
	return n
}

func TestOptimumByHand(t *testing.T) {
	for _, c := range []struct {
		name     string
		blocks   []uint32
		capacity int
		want     []bool
	}{
		{"nothing", nil, 1, []bool{}},
		{"no pool", []uint32{1, 1}, 0, []bool{false, false}},
		// 2 is declined: 1 comes first.
		{"declines", []uint32{1, 2, 1, 2}, 1, []bool{false, false, true, false}},
		{"changes its mind", []uint32{1, 2, 2, 1}, 1, []bool{false, false, true, false}},
		{"gives up what is never needed", []uint32{1, 1, 2, 2}, 1, []bool{false, true, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, belady(c.blocks, c.capacity)) })
	}
}

// best tries every choice: which block to give up for a new one, or to decline.
func best(blocks []uint32, capacity int) int {
	now := map[uint32]int{0: 0} // the most hits by the set of blocks that are there
	for _, b := range blocks {
		then := map[uint32]int{}
		reach := func(set uint32, hits int) { then[set] = max(then[set], hits) }
		for set, hits := range now {
			if set&(1<<b) != 0 {
				reach(set, hits+1)
				continue
			}
			reach(set, hits)
			size := 0
			for victim := range uint32(32) {
				if set&(1<<victim) != 0 {
					size++
					reach(set&^(1<<victim)|1<<b, hits)
				}
			}
			if size < capacity {
				reach(set|1<<b, hits)
			}
		}
		now = then
	}
	most := 0
	for _, hits := range now {
		most = max(most, hits)
	}
	return most
}

// TestOptimumIsBest: no sequence of choices has more hits.
func TestOptimumIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.Uint32Range(0, 5), 0, 24).Draw(t, "blocks")
		capacity := rapid.IntRange(1, 4).Draw(t, "capacity")
		require.Equal(t, best(blocks, capacity), hits(belady(blocks, capacity)))
	})
}

// TestOptimumFitsThePool replays the hits: a block that is hit has been kept since its last
// access, and the pool never keeps more blocks than it has space for.
func TestOptimumFitsThePool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.Uint32Range(0, 40), 1, 300).Draw(t, "blocks")
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		hit, next := belady(blocks, capacity), nextUse(blocks)
		kept := 0
		for i := range blocks {
			if hit[i] {
				kept--
			}
			if next[i] != never && hit[next[i]] {
				kept++
			}
			require.LessOrEqual(t, kept, capacity)
		}
	})
}
