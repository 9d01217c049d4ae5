package layers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCoverage compares coverage with a map of bytes, range by range in any order.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 200).Draw(t, "size")
		var all coverage
		done, twice := make([]bool, size), false
		add := func(lo, hi int) {
			all.add(uint64(lo), uint64(hi))
			for i := lo; i < hi; i++ {
				twice = twice || done[i]
				done[i] = true
			}
		}
		// Cuts, shuffled, cover the value; extra ranges overlap.
		var cuts [][2]int
		for lo := 0; lo < size; {
			hi := rapid.IntRange(lo+1, size).Draw(t, "cut")
			cuts = append(cuts, [2]int{lo, hi})
			lo = hi
		}
		cuts = rapid.Permutation(cuts).Draw(t, "order")
		for i, c := range cuts {
			if rapid.IntRange(0, 9).Draw(t, "extra") == 0 {
				lo := rapid.IntRange(0, size-1).Draw(t, "lo")
				add(lo, rapid.IntRange(lo+1, size).Draw(t, "hi"))
			}
			complete := all.whole(uint64(size))
			missing := 0
			for _, d := range done {
				if !d {
					missing++
				}
			}
			require.Equal(t, missing == 0, complete)
			require.LessOrEqual(t, len(all.runs), i+2+len(cuts))
			add(c[0], c[1])
		}
		for i := 1; i < len(all.runs); i++ {
			require.Less(t, all.runs[i-1].hi, all.runs[i].lo)
		}
		require.True(t, all.whole(uint64(size)))
		require.Equal(t, twice, all.twice)
		require.False(t, all.whole(uint64(size)+1))
	})
}

func TestCoverageIsBounded(t *testing.T) {
	var all coverage
	for i := range uint64(maxRuns) {
		require.True(t, all.hasSpace(1))
		all.add(2*i, 2*i+1)
	}
	require.False(t, all.hasSpace(1))
	require.Len(t, all.runs, maxRuns)
	all.add(1, 2*maxRuns)
	require.Len(t, all.runs, 1)
	require.True(t, all.hasSpace(1))
}
