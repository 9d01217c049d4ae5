package crc32c

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// remainder returns x^n modulo P by long division, with P in the usual notation: x^32 + 1EDC6F41.
func remainder(n int) uint32 {
	r := uint64(1)
	for range n {
		if r <<= 1; r>>32 != 0 {
			r ^= 1<<32 | 0x1EDC6F41
		}
	}
	return bits.Reverse32(uint32(r))
}

func TestSquares(t *testing.T) {
	for k := range 12 {
		require.Equal(t, remainder(8<<k), squares[k], k)
	}
}

func TestCombineAndParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(t, "bytes")
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		require.Equal(t, Sum(b), Combine(Sum(b[:cut]), Sum(b[cut:]), uint64(len(b)-cut)))
		require.Equal(t, Sum(b), sumParts(b, rapid.IntRange(1, 9).Draw(t, "parts")))
	})
}

func TestSumParallel(t *testing.T) {
	b := make([]byte, 3*perCore+17)
	fill(b, 3)
	require.Equal(t, Sum(b), SumParallel(b))
	require.Equal(t, Sum(b), sumParts(b, 3))
}
