package model

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestGrainSizes: grains are at least 16 KiB, and an object has at most 512.
func TestGrainSizes(t *testing.T) {
	for _, c := range []struct {
		size, grain uint64
		count       int
	}{
		{0, 16 << 10, 0}, {1, 16 << 10, 0}, {64 << 10, 16 << 10, 0}, {64<<10 + 1, 16 << 10, 5}, {8 << 20, 16 << 10, 512}, {8<<20 + 1, 32 << 10, 257},
		{1 << 30, 2 << 20, 512}, {1<<30 + 1, 4 << 20, 257},
	} {
		require.Equal(t, c.grain, GrainSize(c.size), c.size)
		require.Equal(t, c.count, GrainCount(c.size), c.size)
	}
}

// TestGrainsCombine: the checksums of grains combine to that of the object, and no others fit it.
func TestGrainsCombine(t *testing.T) {
	buf := make([]byte, 9<<20)
	for i := range buf {
		buf[i] = byte(i * i >> 7)
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Uint64Range(wholeBelow-1, 40*MinGrain), rapid.Uint64Range(8<<20-1, 9<<20)).Draw(t, "size")
		sum := Checksum{Kind: ChecksumCRC32C, Value: uint64(crc32c.Sum(buf[:size]))}
		grains := make([]uint32, GrainCount(size))
		require.True(t, GrainsFit(nil, size, sum))
		if len(grains) == 0 {
			require.False(t, GrainsFit([]uint32{uint32(sum.Value)}, size, sum))
			return
		}
		crc32c.SumGrains(grains, buf[:size], 0, int(GrainSize(size)))
		require.Equal(t, uint32(sum.Value), CombineGrains(grains, size))
		require.True(t, GrainsFit(grains, size, sum))
		require.False(t, GrainsFit(grains, size, Checksum{}))
		require.False(t, GrainsFit(grains[1:], size, sum))
		require.False(t, GrainsFit(append(grains, 0), size, sum))
		grains[rapid.IntRange(0, len(grains)-1).Draw(t, "wrong")] ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
		require.False(t, GrainsFit(grains, size, sum))
	})
}
