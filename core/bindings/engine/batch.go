package engine

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// The results of Check. All but Pending free the batch.
const (
	Done     = 1
	Pending  = 0
	Failed   = -1
	TimedOut = -2
)

// slack is how long a batch may take to settle after its deadline.
const slack = 10 * time.Second

// submitted is a batch in flight.
type submitted struct {
	target   string
	deadline time.Time
}

// endBatches cancels all batches, waits until no transport accesses their memory, and frees them. A
// batch that is not done when the context ends stays.
func (s *session) endBatches(ctx context.Context) error {
	var all []*transfer.Batch
	s.batches.Range(func(id, _ any) bool {
		s.batches.Delete(id)
		if b, err := s.core.Transfer.Batch(id.(transfer.BatchID)); err == nil { //nolint:forcetypeassert // There are no other keys.
			b.Cancel()
			all = append(all, b)
		}
		return true
	})
	var failed error
	for _, b := range all {
		err := b.Wait(ctx)
		if err == nil {
			err = b.Free()
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// Submit starts the same transfer as Transfer and returns the number of the batch, for Wait or
// Check. It waits only for the first lookup of a peer, which is bounded. It returns 0 and an error
// if it started nothing.
func (e *Engine) Submit(target string, kind transport.OpKind, ranges []Range) (uint64, error) {
	return ask(e, func(s *session) (uint64, error) {
		id, err := s.submit(SegmentName(target), kind, ranges)
		return uint64(id), err
	})
}

func (s *session) submit(target string, kind transport.OpKind, ranges []Range) (transfer.BatchID, error) {
	if err := s.ensurePeer(s.ctx, target); err != nil {
		return 0, err
	}
	b, err := s.core.Transfer.NewBatch(max(len(ranges), 1)) // An empty batch is done at once.
	if err != nil {
		return 0, err
	}
	reqs, deadline := s.requests(target, kind, ranges)
	for _, a := range b.Submit(reqs) {
		if a.Err != nil {
			err = errors.Join(err, a.Err)
		}
	}
	if err == nil {
		s.batches.Store(b.ID(), submitted{target, deadline})
		return b.ID(), nil
	}
	b.Cancel() // The caller gets no number with which to wait for the others.
	if e := s.settle(b, deadline); e == nil {
		e = b.Free()
		err = errors.Join(err, e)
	}
	return 0, errs.Wrap(errs.CodeOf(err), "submit", err)
}

// settle waits until no transport accesses memory of the batch.
func (s *session) settle(b *transfer.Batch, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(slack))
	defer cancel()
	return b.Wait(ctx)
}

// Wait waits until all batches are done, bounded by their deadlines, and frees them. The error is
// that of the first batch that failed or was unknown.
func (e *Engine) Wait(ids []uint64) error {
	return e.do(func(s *session) (err error) {
		for _, id := range ids {
			if _, failed := s.wait(transfer.BatchID(id)); err == nil {
				err = failed
			}
		}
		return err
	})
}

func (s *session) wait(id transfer.BatchID) (int, error) {
	b, d, err := s.batch(id)
	if err != nil {
		return Failed, err
	}
	if err := s.settle(b, d.deadline); err != nil {
		return Failed, err
	}
	return s.finish(b, d)
}

// Check returns the state of a batch without waiting. No transport accesses the memory of a failed
// batch.
func (e *Engine) Check(id uint64) int {
	state, err := ask(e, func(s *session) (int, error) {
		b, d, err := s.batch(transfer.BatchID(id))
		if err != nil {
			return Failed, err
		}
		select {
		case <-b.Done():
			return s.finish(b, d)
		default:
		}
		if b.BatchStatus().State == transfer.Failed {
			b.Cancel()
		}
		return Pending, nil
	})
	if err != nil && state == Pending { // The engine is not initialized.
		return Failed
	}
	return state
}

func (s *session) batch(id transfer.BatchID) (*transfer.Batch, submitted, error) {
	known, _ := s.batches.Load(id)
	d, ok := known.(submitted)
	b, err := s.core.Transfer.Batch(id)
	if err == nil && !ok {
		err = errs.New(errs.InvalidParams, "batch", "%d is not of this engine's transfers", id)
	}
	return b, d, err
}

// finish frees a batch that is done and returns its result.
func (s *session) finish(b *transfer.Batch, d submitted) (int, error) {
	status := b.BatchStatus()
	if err := b.Free(); err != nil { // Another call was faster.
		return Failed, err
	}
	s.batches.Delete(b.ID())
	if status.State == transfer.Completed {
		return Done, nil
	}
	s.peers.forget(d.target)
	if errors.Is(status.Err, transfer.ErrTimeout) {
		return TimedOut, status.Err
	}
	return Failed, status.Err
}
