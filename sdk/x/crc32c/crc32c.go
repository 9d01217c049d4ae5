package crc32c

import "hash/crc32"

const (
	// past is the number of bytes from which on the copies of kernels bypass the caches. From that
	// size on, source and destination fill a second-level cache of 1 MiB, and a store that bypasses
	// the caches need not read memory before it writes it.
	past = 512 << 10
)

// Sum returns the checksum of b.
func Sum(b []byte) uint32 { return Update(0, b) }

// Update returns the checksum of A followed by b. crc is the checksum of A, 0 if A is empty.
func Update(crc uint32, b []byte) uint32 {
	if len(b) >= least {
		if k := use(); k.alone {
			return k.update(crc, b)
		}
	}
	return crc32.Update(crc, castagnoli, b)
}

// Copy copies src to the beginning of dst, which must be long enough, and returns the checksum of
// the bytes that it stored. The two must not overlap: of those that do, neither the bytes nor the
// checksum mean anything.
//
// If another goroutine or process changes src meanwhile, the checksum is still that of the bytes
// stored, because Copy reads src only once. If dst is changed, the checksum means nothing.
func Copy(dst, src []byte) uint32 { return CopyUpdate(0, dst, src) }

// CopyUpdate is Copy with a checksum that continues crc, as in Update.
func CopyUpdate(crc uint32, dst, src []byte) uint32 {
	return copyPart(crc, dst[:len(src):len(dst)], src, len(src) >= past) // It panics if dst is too short, whatever its capacity.
}

// copyPart copies src to dst, which is as long. If stream is true, the stores of kernels bypass the caches.
func copyPart(crc uint32, dst, src []byte, stream bool) uint32 {
	if raceEnabled || len(src) < least {
		return copyPortable(crc, dst, src)
	}
	return use().copy(crc, dst, src, stream)
}
