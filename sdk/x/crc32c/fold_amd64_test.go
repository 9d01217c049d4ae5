package crc32c

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFactors compares the factors of the kernels with their definition.
func TestFactors(t *testing.T) {
	want := func(distance int) factors {
		return factors{uint64(remainder(distance+63)) << 32, uint64(remainder(distance-1)) << 32}
	}
	require.Equal(t, folds{four: want(4 * 512), one: want(512)}, by512)
	require.Equal(t, folds{four: want(4 * 256), one: want(256)}, by256)
	require.Equal(t, want(4*128), byBlock)
	for n := range 200 {
		require.Equal(t, remainder(n), power(uint(n)), n)
	}
}
