package crc32c

import (
	"hash/crc32"
	"testing"
)

// Benchmark compares this package with hash/crc32 and copy. Objects of 16 MiB do not fit the
// second-level cache, like those that clients put and get.
func Benchmark(b *testing.B) {
	for _, s := range []struct {
		name string
		size int
	}{{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}, {"16MiB", 16 << 20}} {
		for _, do := range []struct {
			name string
			f    func(dst, src []byte) uint32
		}{
			{"sum", func(_, src []byte) uint32 { return Sum(src) }},
			{"sum/hash_crc32", func(_, src []byte) uint32 { return crc32.Checksum(src, castagnoli) }},
			{"copy", func(dst, src []byte) uint32 { copy(dst, src); return 0 }},
			{"copy+sum", Copy},
			{"copy+sum/portable", func(dst, src []byte) uint32 { return copyPortable(0, dst, src) }},
			{"copy+sum/two_passes", func(dst, src []byte) uint32 { copy(dst, src); return crc32.Checksum(dst, castagnoli) }},
		} {
			b.Run(do.name+"/"+s.name, func(b *testing.B) {
				dst, src := make([]byte, s.size), make([]byte, s.size)
				for i := range src {
					src[i] = byte(i)
				}
				copy(dst, src) // touches its pages
				b.SetBytes(int64(s.size))
				b.ReportAllocs()
				for b.Loop() {
					do.f(dst, src)
				}
			})
		}
	}
}
