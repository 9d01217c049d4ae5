package fragment

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// parallelBytes is the size from which on several cores compute the checksums of a batch.
const parallelBytes = 2 << 20

// Checksums computes the checksums of several values. It is pooled.
type Checksums struct {
	// Values has no fragments for a value whose checksum is not needed.
	Values [][]store.Fragment
	// Of has the checksum of each value after Compute.
	Of   []uint32
	next atomic.Int64
	wg   sync.WaitGroup
}

// Reset forgets all values.
func (s *Checksums) Reset() {
	clear(s.Values)
	s.Values, s.Of = s.Values[:0], s.Of[:0]
}

// Add appends a value.
func (s *Checksums) Add(value []store.Fragment) { s.Values = append(s.Values, value) }

// Compute sets Of. All cores work on each of a few large values; each core works on some of many
// values.
func (s *Checksums) Compute() {
	n := len(s.Values)
	s.Of = append(s.Of[:0], make([]uint32, n)...)
	switch {
	case !s.large():
		for i := range n {
			s.Of[i] = checksum(s.Values[i], crc32c.Sum)
		}
	case n < 2*runtime.GOMAXPROCS(0):
		for i := range n {
			s.Of[i] = checksum(s.Values[i], crc32c.SumParallel)
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
func (s *Checksums) large() bool {
	total := 0
	for _, value := range s.Values {
		if total += Bytes(value); total >= parallelBytes {
			return true
		}
	}
	return false
}

func (s *Checksums) work() {
	for i := s.next.Add(1) - 1; i < int64(len(s.Values)); i = s.next.Add(1) - 1 {
		s.Of[i] = checksum(s.Values[i], crc32c.Sum)
	}
}

// checksum computes the checksum of fragments in their order.
func checksum(fs []store.Fragment, of func([]byte) uint32) (all uint32) {
	for i, f := range fs {
		if c := of(f.Mem); i == 0 {
			all = c
		} else {
			all = crc32c.Combine(all, c, uint64(len(f.Mem)))
		}
	}
	return all
}

// ChecksumOfTransfer returns the checksum of the bytes of requests, in their order. ok is false if
// the transfer has not computed all of it.
func ChecksumOfTransfer(reqs []transfer.Request, results []transfer.Result) (all uint32, ok bool) {
	for i := range results {
		r := &results[i]
		if !r.Summed {
			return 0, false
		}
		all = crc32c.Combine(all, r.Sum, uint64(len(reqs[i].Local)))
	}
	return all, len(results) > 0
}

// CRC32C makes the checksum of an object.
func CRC32C(checksum uint32) model.Checksum {
	return model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(checksum)}
}
