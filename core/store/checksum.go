package store

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// parallelSum is from how many bytes on the checksums of a batch are spread over cores.
const parallelSum = 2 << 20

// summing computes the checksums of several values. It is used again, by one call at a time.
type summing struct {
	values [][]span
	sums   []model.Checksum
	next   atomic.Int64
	wg     sync.WaitGroup
}

// reset empties it.
func (s *summing) reset() {
	clear(s.values)
	s.values, s.sums = s.values[:0], s.sums[:0]
}

// add appends a value; the checksum of a value without spans is not used.
func (s *summing) add(value []span) { s.values = append(s.values, value) }

// compute sets the checksums to those of the values. A few large values are cut up, many small ones
// are shared out.
func (s *summing) compute() {
	n := len(s.values)
	s.sums = append(s.sums[:0], make([]model.Checksum, n)...)
	switch {
	case !s.large():
		for i := range n {
			s.one(i, crc32c.Sum)
		}
	case n < 2*runtime.GOMAXPROCS(0):
		for i := range n {
			s.one(i, crc32c.SumParallel)
		}
	default:
		s.next.Store(0)
		for range min(runtime.GOMAXPROCS(0), n) {
			s.wg.Go(s.work)
		}
		s.wg.Wait()
	}
}

// large reports whether the values together are worth several cores.
func (s *summing) large() bool {
	total := 0
	for _, value := range s.values {
		for _, v := range value {
			total += len(v.mem)
		}
		if total >= parallelSum {
			return true
		}
	}
	return false
}

func (s *summing) work() {
	for i := s.next.Add(1) - 1; i < int64(len(s.values)); i = s.next.Add(1) - 1 {
		s.one(int(i), crc32c.Sum)
	}
}

func (s *summing) one(i int, sum func([]byte) uint32) {
	s.sums[i] = sumOfValue(sumOf(s.values[i], sum))
}

func sumOfValue(sum uint32) model.Checksum {
	return model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(sum)}
}
