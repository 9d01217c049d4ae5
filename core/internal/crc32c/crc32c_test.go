package crc32c

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSumIsCastagnoli(t *testing.T) {
	require.Equal(t, uint32(0xE3069283), Sum([]byte("123456789")), "the check value of the CRC catalogue")
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
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	require.Equal(t, Sum(b), SumParallel(b))
	require.Equal(t, Sum(b), sumParts(b, 3))
}

func BenchmarkSum(b *testing.B)         { bench(b, Sum) }
func BenchmarkSumParallel(b *testing.B) { bench(b, SumParallel) }

func BenchmarkCopy(b *testing.B) {
	dst := make([]byte, 64<<20)
	bench(b, func(src []byte) uint32 { copy(dst, src); return 0 })
}

func bench(b *testing.B, f func([]byte) uint32) {
	for _, size := range []int{1 << 20, 64 << 20} {
		b.Run(map[int]string{1 << 20: "1MiB", 64 << 20: "64MiB"}[size], func(b *testing.B) {
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(i)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				f(data)
			}
		})
	}
}
