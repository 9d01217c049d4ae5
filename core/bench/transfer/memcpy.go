package transfer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// MemcpyLimit measures plain copies between the two memories of a Local session once, with
// the threads and blocks of the load.
func (s *Session) MemcpyLimit(ctx context.Context, l Load, d time.Duration) (Limit, error) {
	if s.own == nil {
		return Limit{}, errs.New(errs.InvalidParams, "bench transfer", "the target's memory is in another process")
	}
	if err := s.fits(l); err != nil {
		return Limit{}, err
	}
	if err := ctx.Err(); err != nil {
		return Limit{}, err
	}
	bytes, took := s.copyFor(ctx, l, d)
	name := "memcpy"
	if l.Threads > 1 {
		name = fmt.Sprintf("memcpy, %d threads", l.Threads)
	}
	return Limit{Name: name, GBps: float64(bytes) / float64(max(took, 1))}, nil
}

func (s *Session) copyFor(ctx context.Context, l Load, d time.Duration) (uint64, time.Duration) {
	var all sync.WaitGroup
	moved := make([]uint64, l.Threads)
	start := time.Now()
	for t := range l.Threads {
		all.Go(func() {
			for {
				moved[t] += s.copyBatch(l, t)
				if time.Since(start) >= d || ctx.Err() != nil {
					return
				}
			}
		})
	}
	all.Wait()
	took, sum := time.Since(start), uint64(0)
	for _, n := range moved {
		sum += n
	}
	return sum, took
}

// copyBatch copies as much as one batch of a thread moves, against the direction of the
// load: bytes that the engine did not move, or moved wrongly, stay wrong on the side that
// is compared.
func (s *Session) copyBatch(l Load, thread int) uint64 {
	from, to := s.local.bytes(), s.own.area.bytes()
	if l.Kind == transport.Write {
		from, to = to, from
	}
	for i := range l.Batch {
		at := l.offset(thread, i)
		copy(to[at:][:l.Block], from[at:][:l.Block])
	}
	return uint64(l.Batch) * l.Block
}
