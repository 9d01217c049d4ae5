package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	te "github.com/mooncake-go/mooncake/core/transfer"
)

// thread submits one batch after the other.
type thread struct {
	s        *Session
	requests []te.Request
	batches  uint64
	busy     time.Duration
	latency  *measure.Histogram
}

func (t *thread) run(ctx context.Context, until time.Time) error {
	for begin := time.Now(); ; {
		if err := t.s.move(ctx, t.requests); err != nil {
			return err
		}
		end := time.Now()
		t.latency.Record(end.Sub(begin))
		t.busy += end.Sub(begin)
		t.batches++
		if !end.Before(until) {
			return nil
		}
		begin = end
	}
}

// move does one batch. When the context ends, its cause is the error.
func (s *Session) move(ctx context.Context, reqs []te.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.Async {
		return s.moveAsync(ctx, reqs)
	}
	for i, r := range s.node.Engine.Transfer(ctx, reqs) {
		if r.Err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.failed(&reqs[i], r.Err)
	}
	return nil
}

// moveAsync submits a batch and waits for it.
func (s *Session) moveAsync(ctx context.Context, reqs []te.Request) error {
	b, err := s.node.Engine.NewBatch(len(reqs))
	if err != nil {
		return fmt.Errorf("bench transfer: %w", err)
	}
	accepted := b.Submit(reqs)
	if b.Wait(ctx) != nil {
		b.Cancel()
		<-b.Done() // Bounded: Cancel says by what.
		return errors.Join(context.Cause(ctx), b.Free())
	}
	for i, r := range accepted {
		if r.Err == nil {
			var status te.Status
			if status, r.Err = b.Status(r.Index); r.Err == nil {
				r.Err = status.Err
			}
		}
		if r.Err != nil {
			return errors.Join(s.failed(&reqs[i], r.Err), b.Free())
		}
	}
	return b.Free()
}

func (s *Session) failed(r *te.Request, err error) error {
	return fmt.Errorf("bench transfer: %s of %d bytes at %#x of %s: %w", KindName(r.Kind), len(r.Local), r.Addr, s.segment, err)
}
