package record_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

func sample(key, size int) *record.Header {
	h := &record.Header{
		Volume: [16]byte{1, 2, 3}, Generation: 4, Sequence: 5, Address: 6<<32 | 7, Epoch: 8, Put: 9,
		Size: uint64(size), Sum: 10, Summed: true, Key: bytes.Repeat([]byte{'k'}, key),
	}
	h.Grains = make([]uint32, record.Grains(h.Size))
	for i := range h.Grains {
		h.Grains[i] = rand.Uint32()
	}
	return h
}

// TestRoundTrip: the largest header fits, too.
func TestRoundTrip(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {46, 1 << 20}, {2048, 480 * (16 << 10)}, {2048, 480*(16<<10) + 1}, {2048, record.MaxValue}} {
		page := make([]byte, record.Page)
		want := sample(c[0], c[1])
		want.Encode(page)
		got, err := record.Decode(page)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.LessOrEqual(t, record.Grain(want.Size), uint64(record.MaxGrain))
	}
}

// TestEveryBitCounts: no flipped bit of a header goes unnoticed.
func TestEveryBitCounts(t *testing.T) {
	page := make([]byte, record.Page)
	sample(46, 1<<20).Encode(page)
	for bit := range record.Page * 8 {
		page[bit/8] ^= 1 << (bit % 8)
		_, err := record.Decode(page)
		require.Error(t, err, "bit %d", bit)
		page[bit/8] ^= 1 << (bit % 8)
	}
}

// TestSum: the checksum of a value is that of its grains put together.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := make([]byte, rapid.IntRange(1, 300_000).Draw(t, "size"))
		for i := range value {
			value[i] = byte(i * 7 >> 3)
		}
		grains := make([]uint32, record.Grains(uint64(len(value))))
		crc32c.SumGrains(grains, value, 0, int(record.Grain(uint64(len(value)))))
		require.Equal(t, crc32c.Sum(value), record.Sum(uint64(len(value)), grains))
	})
}

// FuzzDecode: what is accepted is what Encode writes.
func FuzzDecode(f *testing.F) {
	page := make([]byte, record.Page)
	for _, size := range []int{1, 1 << 20, record.MaxValue} {
		sample(100, size).Encode(page)
		f.Add(bytes.Clone(page))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := record.Decode(b)
		if err != nil {
			return
		}
		again := make([]byte, record.Page)
		h.Encode(again)
		got, err := record.Decode(again)
		require.NoError(t, err)
		require.Equal(t, h, got)
	})
}
