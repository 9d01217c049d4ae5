package content

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func made(size int, id, seed uint64) []byte {
	p := make([]byte, size)
	Fill(p, id, seed)
	return p
}

func TestFilledPagesVerify(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200, 4096, 4099} {
		p := made(size, 42, 7)
		require.Equal(t, -1, Verify(p, 42, 7), "size %d", size)
		require.Equal(t, p, made(size, 42, 7))
	}
}

// TestEveryFlippedByteIsFound tries every byte of pages of awkward sizes.
func TestEveryFlippedByteIsFound(t *testing.T) {
	for _, size := range []int{1, 8, 65, 191, 500} {
		p := made(size, 1, 2)
		for i := range p {
			for _, bit := range []byte{1, 0x80, 0xff} {
				p[i] ^= bit
				require.Equal(t, i, Verify(p, 1, 2), "size %d", size)
				p[i] ^= bit
			}
		}
	}
}

func TestDamageIsFoundAtItsFirstByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5000).Draw(t, "size")
		id, seed := rapid.Uint64().Draw(t, "id"), rapid.Uint64().Draw(t, "seed")
		p := made(size, id, seed)
		first := size
		for range rapid.IntRange(1, 4).Draw(t, "bytes") {
			at := rapid.IntRange(0, size-1).Draw(t, "at")
			p[at] = ^made(size, id, seed)[at]
			first = min(first, at)
		}
		require.Equal(t, first, Verify(p, id, seed))
	})
}

// TestAnotherPageIsWrongInEveryWord holds for any two blocks, not only for these.
func TestAnotherPageIsWrongInEveryWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if a == b {
			return
		}
		p, q := made(512, a, 3), made(512, b, 3)
		for i := 0; i < 512; i += 8 {
			require.False(t, bytes.Equal(p[i:i+8], q[i:i+8]))
		}
		require.GreaterOrEqual(t, Verify(p, b, 3), 0)
		require.Less(t, Verify(p, b, 3), 8)
	})
}

func TestMovedStaleAndForeignContentIsFound(t *testing.T) {
	p := made(4096, 5, 9)
	moved := append(append([]byte{}, p[2048:]...), p[:2048]...)
	require.GreaterOrEqual(t, Verify(moved, 5, 9), 0, "halves swapped")
	half := append(append([]byte{}, p[:2048]...), make([]byte, 2048)...)
	require.Equal(t, 2048, Verify(half, 5, 9)&^7, "second half never written")
	require.GreaterOrEqual(t, Verify(p, 5, 10), 0, "another run")
	require.GreaterOrEqual(t, Verify(made(8192, 5, 9)[:4096], 5, 9), 0, "half of a larger page")
	require.Less(t, Verify(make([]byte, 4096), 5, 9), 8, "nothing written")
	words := map[string]bool{}
	for i := 0; i < len(p); i += 8 {
		require.False(t, words[string(p[i:i+8])], "words of a page differ")
		words[string(p[i:i+8])] = true
	}
}

func TestIdentify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(8, 300).Draw(t, "size")
		id, seed := rapid.Uint64().Draw(t, "id"), rapid.Uint64().Draw(t, "seed")
		p := made(size, id, seed)
		got, ok := Identify(p, seed)
		require.True(t, ok)
		require.Equal(t, id, got)
		if size >= 16 {
			p[size-1]++
			_, ok = Identify(p, seed)
			require.False(t, ok)
		}
	})
	_, ok := Identify(make([]byte, 7), 1)
	require.False(t, ok)
}

func TestNothingIsAllocated(t *testing.T) {
	p := make([]byte, 1000)
	require.Zero(t, testing.AllocsPerRun(10, func() { Fill(p, 1, 2); Verify(p, 1, 2) }))
}

func FuzzVerify(f *testing.F) {
	f.Add(made(100, 1, 2), uint64(1), uint64(2))
	f.Add([]byte{}, uint64(0), uint64(0))
	f.Add(made(64, 7, 7)[:63], uint64(7), uint64(7))
	f.Fuzz(func(t *testing.T, page []byte, id, seed uint64) {
		want := made(len(page), id, seed)
		first := -1
		for i := range page {
			if page[i] != want[i] {
				first = i
				break
			}
		}
		require.Equal(t, first, Verify(page, id, seed))
		if got, ok := Identify(page, seed); ok {
			require.Equal(t, page, made(len(page), got, seed))
		}
	})
}

func BenchmarkPage(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		src, dst := made(size, 1, 2), make([]byte, size)
		table := crc32.MakeTable(crc32.Castagnoli)
		for _, c := range []struct {
			name string
			do   func()
		}{
			{"fill", func() { Fill(dst, 1, 2) }},
			{"verify", func() { Verify(src, 1, 2) }},
			{"copy", func() { copy(dst, src) }},
			{"clear", func() { clear(dst) }},
			{"crc32c", func() { crc32.Checksum(src, table) }},
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", c.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					c.do()
				}
			})
		}
	}
}
