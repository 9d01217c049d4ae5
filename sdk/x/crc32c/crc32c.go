package crc32c

import "hash/crc32"

const (
	// least is the number of bytes from which on the kernel pays for its setup.
	least = 512
	// stretch is the most bytes that one call of the kernel processes: neither the scheduler nor
	// the garbage collector can interrupt it.
	stretch = 1 << 20
	// chunk is how many bytes the portable copy moves before it computes their checksum. It is
	// about the size of a first-level cache.
	chunk = 32 << 10
	// past is the number of bytes from which on the kernel's copies bypass the caches. From that
	// size on, source and destination fill a second-level cache of 1 MiB, and a store that bypasses
	// the caches need not read memory before it writes it.
	past = 512 << 10
	// line is the size of a cache line, which is the unit of the kernel.
	line = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of b.
func Sum(b []byte) uint32 { return Update(0, b) }

// Update returns the checksum of A followed by b. crc is the checksum of A, 0 if A is empty.
func Update(crc uint32, b []byte) uint32 {
	if !useKernel || len(b) < least {
		return crc32.Update(crc, castagnoli, b)
	}
	for len(b) >= least {
		n := min(len(b), stretch) &^ (line - 1)
		crc = ^foldSum(^crc, &b[0], n, &folding)
		b = b[n:]
	}
	return crc32.Update(crc, castagnoli, b)
}

// Copy copies src to the beginning of dst, which must be long enough, and returns the checksum of
// the bytes that it stored. The two must not overlap.
//
// If another goroutine or process changes src meanwhile, the checksum is still that of the bytes
// stored, because Copy reads src only once. If dst is changed, the checksum means nothing.
func Copy(dst, src []byte) uint32 { return CopyUpdate(0, dst, src) }

// CopyUpdate is Copy with a checksum that continues crc, as in Update.
func CopyUpdate(crc uint32, dst, src []byte) uint32 {
	dst = dst[:len(src):len(dst)] // It panics if dst is too short, whatever its capacity.
	if !useKernel || raceEnabled || len(src) < least {
		return copyPortable(crc, dst, src)
	}
	return copyFold(crc, dst, src, past)
}

// copyPortable computes the checksum from dst, not from src, which may have changed since the copy.
func copyPortable(crc uint32, dst, src []byte) uint32 {
	for len(src) > 0 {
		n := copy(dst[:min(chunk, len(dst))], src)
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, src = dst[n:], src[n:]
	}
	return crc
}
