package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ID names the batch to Engine.Batch.
func (b *Batch) ID() BatchID { return b.id }

// Status tells how far a request is. It takes no lock, so it can be polled. InvalidParams
// for an index that no accepted request has.
func (b *Batch) Status(i int) (request.Status, error) {
	if n := int(b.used.Load()); i < 0 || i >= n {
		return request.Status{}, errs.New(errs.InvalidParams, "transfer: status", "the batch has no request %d, it has %d", i, n)
	}
	return b.tasks[i].Status(), nil
}

// BatchStatus is the state of all requests together: Failed as soon as one failed or ran out of time, with
// the first error; Waiting while one is not terminal; Canceled when one was; else Completed,
// also of an empty batch.
func (b *Batch) BatchStatus() request.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := request.Status{State: request.Completed, Bytes: b.moved.Load(), Err: b.failure}
	switch {
	case b.count[request.Failed]+b.count[request.Timeout] > 0:
		s.State = request.Failed
	case b.live > 0:
		return request.Status{State: request.Waiting, Bytes: s.Bytes}
	case b.count[request.Canceled] > 0:
		s.State = request.Canceled
	}
	return s
}

// Done returns a channel that is closed when every request submitted so far is terminal,
// and messages to the peers are sent or given up.
func (b *Batch) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled
}

// Wait waits for Done, at most until the context ends, which cancels nothing. The statuses
// of the requests tell how they ended.
func (b *Batch) Wait(ctx context.Context) error {
	done := b.Done()
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		code := errs.TransferFail
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = errs.RPCTimeout
		}
		return errs.Wrap(code, "transfer: wait for the batch", ctx.Err())
	}
}

// WaitFor is Wait with a time limit.
func (b *Batch) WaitFor(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return b.Wait(ctx)
}

// Cancel ends the requests that are not terminal and refuses further ones. It returns at
// once. A request of which nothing is in flight ends at once. The memory of any other is not touched
// any more when it is terminal, which takes at most Config.SliceTimeout, and a few seconds more for
// a transport that does not keep deadlines. Repeatable.
func (b *Batch) Cancel() {
	b.mu.Lock()
	b.canceled = true
	b.mu.Unlock()
	b.cancel(request.ErrCanceled)
}

// Free gives the batch back; its id is stale from then on. ErrBatchBusy while a request is
// not terminal: cancel and wait first.
func (b *Batch) Free() error {
	b.mu.Lock()
	switch {
	case b.freed:
		b.mu.Unlock()
		return stale(b.id)
	case b.live > 0:
		n := b.live
		b.mu.Unlock()
		return errs.WithHint(errs.Wrap(errs.UnavailableInCurrentStatus, "transfer: free batch", request.ErrBatchBusy),
			"%d requests are not done; wait for them, or cancel and wait", n)
	}
	b.freed = true
	b.mu.Unlock()
	b.cancel(nil)
	b.e.batches.remove(b.id)
	return nil
}
