package store

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// span is a run of an object's bytes, from off on, and the memory of this process that they
// come from or go to.
type span struct {
	off uint64
	mem []byte
}

// chain lays pieces of memory side by side as the bytes of one object, from 0 on. Empty
// pieces are left out. buf is used where it is large enough.
func chain(buf []span, pieces [][]byte) (spans []span, size uint64) {
	spans = buf[:0]
	for _, p := range pieces {
		if len(p) > 0 {
			spans = append(spans, span{size, p})
			size += uint64(len(p))
		}
	}
	return spans, size
}

// cut shortens spans that begin at 0 without gaps to size bytes; false when they are fewer.
func cut(spans []span, size uint64) ([]span, bool) {
	for i := range spans {
		s := &spans[i]
		if s.off+uint64(len(s.mem)) >= size {
			s.mem = s.mem[:size-s.off]
			return spans[:i+1], true
		}
	}
	return spans, size == 0
}

// requests appends what it takes to move spans from or to one copy, which may be striped: the bytes
// of the object in order, where those of the spans are. sum asks for their checksum during the
// copy, where that is possible.
func requests(dst []transfer.Request, kind transport.OpKind, spans []span, r *model.Replica, deadline time.Time, sum bool) []transfer.Request {
	for off, p := range r.Parts {
		for _, s := range spans {
			lo, hi := max(s.off, off), min(s.off+uint64(len(s.mem)), off+p.Size)
			if lo >= hi {
				continue
			}
			dst = append(dst, transfer.Request{
				Kind: kind, Local: s.mem[lo-s.off : hi-s.off], Peer: p.Endpoint, Addr: p.Address + (lo - off), Deadline: deadline, Sum: sum,
			})
		}
	}
	return dst
}

// sumOf computes the checksum of the bytes in the order of the spans, which have no gaps.
func sumOf(spans []span, sum func([]byte) uint32) uint32 {
	if len(spans) == 1 {
		return sum(spans[0].mem)
	}
	var all uint32
	for i, s := range spans {
		if i == 0 {
			all = sum(s.mem)
		} else {
			all = crc32c.Combine(all, sum(s.mem), uint64(len(s.mem)))
		}
	}
	return all
}

// sumOfMoved is the checksum of the bytes of requests in their order, false where they were not
// if all were computed during the copy.
func sumOfMoved(reqs []transfer.Request, results []transfer.Result) (sum uint32, ok bool) {
	for i := range results {
		r := &results[i]
		if !r.Summed {
			return 0, false
		}
		sum = crc32c.Combine(sum, r.Sum, uint64(len(reqs[i].Local)))
	}
	return sum, len(results) > 0
}
