package crc32c

import "hash/crc32"

const (
	// least is from how many bytes on the kernel is worth its beginning and end.
	least = 512
	// stretch is what one call of the kernel does at most, in bytes: the scheduler and the
	// collector cannot interrupt it.
	stretch = 1 << 20
	// piece is what the portable copy moves before it sums it up, in bytes: it stays in the
	// first-level cache, or nearly.
	piece = 32 << 10
	// past is from how many bytes on the kernel's copies leave the caches alone. Source and
	// destination fill a second-level cache of 1 MiB by then, and memory that is not there yet
	// need not be read before it is written.
	past = 512 << 10
	// line is that of a cache, and what the kernel takes at a time.
	line = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of b.
func Sum(b []byte) uint32 { return Update(0, b) }

// Update returns the checksum of A followed by b from that of A, which is 0 for nothing.
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

// Copy copies src to the beginning of dst, which must be long enough, and returns the checksum
// of the bytes that it stored. The two must not overlap.
//
// Where somebody changes src meanwhile, the sum is still that of what went to dst: nothing is
// read twice from src. Where somebody changes dst, no sum says anything.
func Copy(dst, src []byte) uint32 { return CopyUpdate(0, dst, src) }

// CopyUpdate is Copy with a checksum that goes on from that of the bytes before.
func CopyUpdate(crc uint32, dst, src []byte) uint32 {
	dst = dst[:len(src):len(dst)] // It panics where dst is short, also where there is capacity.
	if !useKernel || raceEnabled || len(src) < least {
		return copyPortable(crc, dst, src)
	}
	return copyFold(crc, dst, src, past)
}

// copyPortable sums up what is in dst, never src, which may have changed since it was copied.
func copyPortable(crc uint32, dst, src []byte) uint32 {
	for len(src) > 0 {
		n := copy(dst[:min(piece, len(dst))], src)
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, src = dst[n:], src[n:]
	}
	return crc
}
