package crc32c

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSumIsCastagnoli(t *testing.T) {
	require.Equal(t, uint32(0xE3069283), Sum([]byte("123456789")), "the check value of the CRC catalogue")
}

// TestEveryLengthAndAlignment copies all short lengths from all alignments of the source within a cache
// line, to an alignment of the destination that changes with both. The bytes around the destination
// must not change.
func TestEveryLengthAndAlignment(t *testing.T) {
	const longest, margin = 4096, 2 * line
	src, dst := aligned(longest+line), aligned(longest+line+2*margin)
	fill(src, 1)
	want := make([]uint32, longest+1)
	step := 1
	if raceEnabled || testing.Short() { // the race detector is slow, and does not see the kernels
		step = 9
	}
	all := ways(t)
	for at := 0; at < line; at += step {
		begin, data := uint32(at*0x01234567), src[at:]
		for n := range want {
			want[n] = crc32.Update(begin, castagnoli, data[:n])
		}
		for _, w := range all {
			for n := range longest + 1 {
				to := margin + (at*29+n*7)%line
				got, before, behind := dst[to:][:n], dst[to-margin:to], dst[to+n:][:margin]
				copy(before, guard)
				copy(behind, guard)
				clear(got)
				if sum := w.copy(begin, got, data[:n]); sum != want[n] || !bytes.Equal(got, data[:n]) {
					t.Fatalf("%s: %d bytes from %d to %d: the checksum is %08x, not %08x; the bytes are equal: %v", w.name, n, at, to%line, sum, want[n], bytes.Equal(got, data[:n]))
				}
				if string(before) != guard || string(behind) != guard {
					t.Fatalf("%s: %d bytes from %d to %d: bytes beside them changed:\n%x\n%x", w.name, n, at, to%line, before, behind)
				}
				if sum := w.update(begin, data[:n]); sum != want[n] {
					t.Fatalf("%s: %d bytes at %d: the checksum is %08x, not %08x", w.name, n, at, sum, want[n])
				}
			}
		}
	}
}

var guard = strings.Repeat("\xA5", 2*line)

func TestLargeInChunks(t *testing.T) {
	all := ways(t)
	src, dst := aligned(3*stretch), aligned(3*stretch)
	fill(src, 2)
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.IntRange(0, 200).Draw(t, "from"), rapid.IntRange(0, 200).Draw(t, "to")
		data := src[from:][:rapid.IntRange(0, len(src)-400).Draw(t, "bytes")]
		w := rapid.SampledFrom(all).Draw(t, "way")
		want := crc32.Checksum(data, castagnoli)
		clear(dst)
		var copied, updated uint32
		for off := 0; off < len(data); {
			n := rapid.IntRange(1, len(data)-off).Draw(t, "chunk")
			copied = w.copy(copied, dst[to+off:], data[off:off+n])
			updated = w.update(updated, data[off:off+n])
			off += n
		}
		require.Equal(t, want, copied, w.name)
		require.Equal(t, want, updated)
		require.True(t, bytes.Equal(data, dst[to:to+len(data)]), w.name)
		require.Zero(t, crc32.ChecksumIEEE(dst[to+len(data):])^crc32.ChecksumIEEE(make([]byte, len(dst)-to-len(data))), "behind the destination")
	})
}

func TestCopyChecksLength(t *testing.T) {
	for _, n := range []int{1, 4096} {
		require.Panics(t, func() { Copy(make([]byte, n-1), make([]byte, n)) })
		require.Panics(t, func() { Copy(make([]byte, n-1, 2*n), make([]byte, n)) }, "Copy does not use spare capacity")
		require.Equal(t, Sum(make([]byte, n)), Copy(make([]byte, 2*n), make([]byte, n)), "a longer destination")
	}
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte("123456789"), uint32(0), uint8(3), uint8(5))
	f.Add(bytes.Repeat([]byte{1, 2, 3}, 1000), uint32(0xffffffff), uint8(63), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, begin uint32, from, to uint8) {
		src := append(make([]byte, from), data...)[from:]
		want := crc32.Update(begin, castagnoli, src)
		for _, w := range ways(t) {
			require.Equal(t, want, w.update(begin, src), w.name)
			dst := make([]byte, int(to)+len(src))[to:]
			require.Equal(t, want, w.copy(begin, dst, src), w.name)
			require.Equal(t, string(src), string(dst), w.name)
		}
	})
}

// TestChangingSource checks that the checksum is that of the stored bytes, even if the source
// changes meanwhile.
func TestChangingSource(t *testing.T) {
	if raceEnabled {
		t.Skip("the test has a deliberate data race")
	}
	for _, w := range ways(t) {
		src, dst := aligned(1<<20), aligned(1<<20)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for v := byte(1); ; v++ {
				select {
				case <-stop:
					return
				default:
				}
				for i := 0; i < len(src); i += 17 {
					src[i] = v
				}
			}
		}()
		torn, first := 0, make([]byte, len(src))
		for range 200 {
			copy(first, src)
			sum := w.copy(0, dst, src)
			require.Equal(t, crc32.Checksum(dst, castagnoli), sum, w.name)
			if !bytes.Equal(first, dst) {
				torn++
			}
		}
		close(stop)
		<-done
		t.Logf("%s: %d of 200 copies saw a change", w.name, torn)
	}
}

// aligned returns n bytes that begin at a cache line.
func aligned(n int) []byte {
	b := make([]byte, n+line)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) % line)
	return b[skip : skip+n : skip+n]
}

func fill(b []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

func Example() {
	object := []byte("the bytes of an object")
	place := make([]byte, len(object))
	sum := Copy(place, object)
	fmt.Printf("%08x %t\n", sum, sum == Sum(place))
	// Output: cd5800d5 true
}
