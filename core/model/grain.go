package model

import "github.com/mooncake-go/mooncake/sdk/x/crc32c"

const (
	// MinGrain is the least size of a grain in bytes.
	MinGrain = 16 << 10
	// MaxGrains is the largest number of grains of an object.
	MaxGrains = 512
	// wholeBelow is the size in bytes up to which an object is its only grain: a reader of a range reads
	// the whole object and needs no other checksum.
	wholeBelow = 64 << 10
)

// GrainSize returns the size of the grains of an object of a size, both in bytes. Ranges of an object
// are verified grain by grain, counted from its first byte. The size is a function of the object's
// alone, so that all members agree on it.
func GrainSize(size uint64) uint64 {
	g := uint64(MinGrain)
	for g*MaxGrains < size {
		g *= 2
	}
	return g
}

// GrainCount returns how many grains an object of a size has that have checksums of their own: none
// up to 64 KiB.
func GrainCount(size uint64) int {
	if size <= wholeBelow {
		return 0
	}
	g := GrainSize(size)
	return int((size + g - 1) / g)
}

// shiftGrain shifts by the bytes of the least grain.
var shiftGrain = crc32c.NewShifter(MinGrain)

// CombineGrains returns the CRC-32C of an object of a size from those of its grains.
func CombineGrains(grains []uint32, size uint64) (all uint32) {
	g := GrainSize(size)
	for i, c := range grains {
		switch {
		case i == 0:
			all = c
		case i == len(grains)-1:
			all = crc32c.Combine(all, c, size-uint64(i)*g)
		case g == MinGrain:
			all = shiftGrain.Shift(all) ^ c
		default:
			all = crc32c.Combine(all, c, g)
		}
	}
	return all
}

// GrainsFit reports whether the checksums of grains are those of an object of a size and a checksum,
// as far as can be told without its bytes. None fit any object.
func GrainsFit(grains []uint32, size uint64, sum Checksum) bool {
	if len(grains) == 0 {
		return true
	}
	return len(grains) == GrainCount(size) && sum.CRC32C() && uint64(CombineGrains(grains, size)) == sum.Value
}
