package crc32c

import (
	"runtime"
	"sync"
)

// perCore is the smallest number of bytes that pays for a goroutine of its own.
const perCore = 2 << 20

// SumParallel is Sum on up to GOMAXPROCS cores, fewer if b is small.
func SumParallel(b []byte) uint32 { return sumParts(b, min(runtime.GOMAXPROCS(0), len(b)/perCore)) }

// sumParts computes the checksums of several ranges of b in parallel and combines them.
func sumParts(b []byte, parts int) uint32 {
	if parts < 2 {
		return Sum(b)
	}
	size := (len(b) + parts - 1) / parts
	sums := make([]uint32, parts)
	var wg sync.WaitGroup
	for i := range parts {
		lo, hi := min(i*size, len(b)), min((i+1)*size, len(b))
		wg.Go(func() { sums[i] = Shift(Sum(b[lo:hi]), uint64(len(b)-hi)) })
	}
	wg.Wait()
	var all uint32
	for _, s := range sums {
		all ^= s
	}
	return all
}
