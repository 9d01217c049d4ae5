package store

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/internal/crc32c"
	"github.com/mooncake-go/mooncake/core/model"
)

// parallelSum is from how many bytes on the checksums of a batch are spread over cores.
const parallelSum = 2 << 20

// checksums computes the checksum of the i-th of n values and hands it to done, which is
// called concurrently. A few large values are cut up, many small ones are shared out.
func checksums(n int, value func(int) []span, done func(int, model.Checksum)) {
	one := func(i int, sum func([]byte) uint32) {
		done(i, model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(sumOf(value(i), sum))})
	}
	workers := min(runtime.GOMAXPROCS(0), n)
	total := 0
	for i := 0; i < n && total < parallelSum; i++ {
		for _, s := range value(i) {
			total += len(s.mem)
		}
	}
	switch {
	case total < parallelSum:
		for i := range n {
			one(i, crc32c.Sum)
		}
	case n < 2*runtime.GOMAXPROCS(0):
		for i := range n {
			one(i, crc32c.SumParallel)
		}
	default:
		var next atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					one(int(i), crc32c.Sum)
				}
			})
		}
		wg.Wait()
	}
}
