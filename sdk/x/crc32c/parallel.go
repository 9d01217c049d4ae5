package crc32c

import (
	"runtime"
	"sync"
)

// perCore is the least number of bytes that is worth a goroutine of its own.
const perCore = 2 << 20

// SumParallel is Sum over up to GOMAXPROCS cores, fewer where b is small.
func SumParallel(b []byte) uint32 { return sumParts(b, min(runtime.GOMAXPROCS(0), len(b)/perCore)) }

// sumParts computes parts sums side by side and joins them.
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
