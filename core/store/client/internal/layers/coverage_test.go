package layers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestCoverage compares coverage with a map of bytes, range by range in any order.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "value")
		size := len(value)
		var all coverage
		done, twice := make([]bool, size), false
		add := func(lo, hi int) {
			all.add(uint64(lo), uint64(hi), crc32c.Sum(value[lo:hi]))
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
			complete, _ := all.whole(uint64(size))
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
		complete, checksum := all.whole(uint64(size))
		require.True(t, complete)
		if twice {
			require.Equal(t, model.Checksum{}, checksum)
		} else {
			require.Equal(t, model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(crc32c.Sum(value))}, checksum)
		}
		more, _ := all.whole(uint64(size) + 1)
		require.False(t, more)
	})
}

func TestCoverageIsBounded(t *testing.T) {
	var all coverage
	for i := range uint64(maxRuns) {
		require.True(t, all.hasSpace(1))
		all.add(2*i, 2*i+1, 0)
	}
	require.False(t, all.hasSpace(1))
	require.Len(t, all.runs, maxRuns)
	all.add(1, 2*maxRuns, 0)
	require.Len(t, all.runs, 1)
	require.True(t, all.hasSpace(1))
}
