package crc32c

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestGrains compares the checksums of grains with those of the bytes, copied and not, for ranges of
// any phase, also those whose copies bypass the caches.
func TestGrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{64, 600, 4096, 16 << 10}).Draw(t, "size")
		lead := rapid.IntRange(0, size-1).Draw(t, "lead")
		n := rapid.OneOf(rapid.IntRange(0, 5*size), rapid.IntRange(past-10, past+10)).Draw(t, "bytes")
		src, dst := make([]byte, n), make([]byte, n+1)
		fill(src, uint64(n))
		var want []uint32
		for at := 0; at < n; {
			to := min(at+size-(lead+at)%size, n)
			want = append(want, Sum(src[at:to]))
			at = to
		}
		require.Equal(t, len(want) > 0, n > 0)
		summed, copied := make([]uint32, GrainsOf(n, lead, size)), make([]uint32, GrainsOf(n, lead, size))
		SumGrains(summed, src, lead, size)
		CopyGrains(copied, dst, src, lead, size)
		if n > 0 { // Without bytes, the lead alone is in a grain.
			require.Equal(t, want, summed)
			require.Equal(t, want, copied)
		}
		require.Equal(t, src, dst[:n])
		require.Zero(t, dst[n])
	})
}

func TestShifter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, a := rapid.Uint64Range(0, 1<<40).Draw(t, "bytes"), rapid.Uint32().Draw(t, "checksum")
		require.Equal(t, Shift(a, n), NewShifter(n).Shift(a))
	})
}
