package cells

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
)

// TestTheCellOfAKeyNeverChanges: XXH64 has published values for "" and "a"; all programs of a pool agree on the rest.
func TestTheCellOfAKeyNeverChanges(t *testing.T) {
	// XXH64("") = ef46db3751d8e999, XXH64("a") = d24ec4f1a98c6e5b: the upper bits are the cell of 2, 4 and 16.
	for n, want := range map[int]int{0: 0, 1: 0, 2: 0x0e >> 3, 4: 0x0e >> 2, 16: 0x0e} {
		require.Equal(t, want, Of("", n), n)
	}
	for n, want := range map[int]int{1: 0, 2: 0x0d >> 3, 4: 0x0d >> 2, 16: 0x0d, 64: 0xd2 >> 2} {
		require.Equal(t, want, Of("a", n), n)
	}
	var got []int
	for i := range 24 {
		got = append(got, Of(fmt.Sprintf("llama-70b@%064x_k_%d", i*i, i%8), 16))
	}
	require.Equal(t, []int{12, 1, 14, 3, 10, 9, 2, 9, 12, 2, 1, 4, 4, 3, 5, 11, 9, 0, 15, 13, 15, 11, 5, 13}, got)
	require.Equal(t, []int{10, 13, 15, 30}, []int{
		OfSegment(model.SegmentID{}, 16), OfSegment(model.SegmentID{Hi: 1}, 16), OfSegment(model.SegmentID{Lo: 1}, 16), OfSegment(model.SegmentID{Hi: 1 << 63, Lo: 7}, 64),
	})
}

// TestCellsAreEven: no cell has more than a few percent more than its share.
func TestCellsAreEven(t *testing.T) {
	const keys, n = 160000, 16
	var have [n]int
	for i := range keys {
		have[Of(fmt.Sprint("key-", i), n)]++
	}
	for c, k := range have {
		require.InEpsilon(t, keys/n, k, 0.05, "cell %d", c)
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, "C", Cluster("C", 0, 1))
	require.Equal(t, "C/cells/0", Cluster("C", 0, 4))
	require.Equal(t, "C", Pool(Cluster("C", 3, 4)))
	require.Equal(t, "C", Pool(Cluster("C", 0, 1)))
}

// TestLeadersNeverChange: masters of two releases agree on who should lead.
func TestLeadersNeverChange(t *testing.T) {
	var got []string
	for c := range 6 {
		row := ""
		for _, m := range Order([]string{"10.0.0.1:50051", "10.0.0.2:50051", "10.0.0.3:50051"}, c, 6) {
			row += m[7:8]
		}
		got = append(got, row)
	}
	require.Equal(t, []string{"123", "231", "123", "213", "312", "321"}, got)
	require.Empty(t, Order(nil, 0, 4))
}

// TestLeadersAreEven: each cell has all masters in its order, whatever the order in which they are given, and no master is
// the first of more cells than its share.
func TestLeadersAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		masters := rapid.SliceOfNDistinct(rapid.StringMatching(`m[0-9]{1,4}`), 1, 9, rapid.ID[string]).Draw(t, "masters")
		n := rapid.IntRange(1, Max).Draw(t, "cells")
		first := map[string]int{}
		for c := range n {
			order := Order(masters, c, n)
			require.ElementsMatch(t, masters, order)
			reversed := slices.Clone(masters)
			slices.Reverse(reversed)
			require.Equal(t, order, Order(append(reversed, masters[0]), c, n))
			first[order[0]]++
		}
		for m, cells := range first {
			require.LessOrEqual(t, cells, (n+len(masters)-1)/len(masters), m)
		}
	})
}

// TestAMasterThatJoinsTakesItsShare: of 16 cells that three masters lead, one more takes about a quarter, and few others move.
func TestAMasterThatJoinsTakesItsShare(t *testing.T) {
	const n = 16
	three := []string{"a", "b", "c"}
	taken, others := 0, 0
	for c := range n {
		before, after := Order(three, c, n)[0], Order(append(three, "d"), c, n)[0]
		switch {
		case after == "d":
			taken++
		case after != before:
			others++
		}
	}
	require.Equal(t, n/4, taken)
	require.LessOrEqual(t, others, n/4)
}
