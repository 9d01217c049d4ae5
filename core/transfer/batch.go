package transfer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Batch is a set of requests that move while the caller does something else. Each request reaches
// exactly one terminal state. Safe for concurrent use.
type Batch struct {
	e      *Engine
	id     BatchID
	ctx    context.Context
	cancel context.CancelCauseFunc
	moved  atomic.Uint64

	// hook is told how each request ends, before its state is terminal. Nil for none.
	hook func(index int, s request.Status)

	tasks []request.Task // as many as the capacity
	used  atomic.Int64   // of tasks

	mu        sync.Mutex
	live      int // requests that are not terminal
	count     [request.Failed + 1]int
	failure   error // the first one
	canceled  bool
	freed     bool
	due       []pendingMessage // to be sent when all requests are completed
	sending   int              // goroutines that send
	sent      int
	noteErr   error
	settled   chan struct{} // closed while no request is live and no message is being sent
	isSettled bool
}

// Submission is the answer to one request of a Submit.
type Submission struct {
	// Index names the request to Status: accepted requests of a batch are counted from 0, over all
	// calls of Submit. It is -1 for a refused one.
	Index int
	// Err is why the request was refused, nil for an accepted one.
	Err error
}

// Submit starts requests and returns for each, in their order, whether it was accepted, or why it
// was refused. A refused request does not keep others from being accepted. Submit returns at once,
// whatever the peers and the directory do. The requests are copied; their memory is not.
//
// ErrTooManyRequests for those beyond the capacity, InvalidParams for one that cannot be,
// ErrCanceled after Cancel, ErrStaleBatch after Free, ErrClosed.
func (b *Batch) Submit(reqs []request.Request) []Submission { return b.submit(reqs, nil) }

// SubmitNotify is Submit with a message to the peer of the first request. It is sent once when
// every request of the batch is completed; it is not sent when one failed or a request of this call
// was refused. Notified reports that.
func (b *Batch) SubmitNotify(reqs []request.Request, n metadata.Notification) []Submission {
	return b.submit(reqs, &n)
}

func (b *Batch) submit(reqs []request.Request, n *metadata.Notification) []Submission {
	out := make([]Submission, len(reqs))
	if !b.e.life.Begin() {
		err := errs.Wrap(errs.TransferFail, "transfer: submit", lifetime.ErrClosed)
		for i := range out {
			out[i] = Submission{Index: -1, Err: err}
		}
		return out
	}
	defer b.e.life.Finish()

	b.mu.Lock()
	first := int(b.used.Load())
	next := first
	refused := false
	for i := range reqs {
		if err := b.refusal(&reqs[i], next); err != nil {
			out[i], refused = Submission{Index: -1, Err: err}, true
			continue
		}
		b.tasks[next].Req, b.tasks[next].Index = reqs[i], next
		out[i].Index = next
		next++
	}
	b.used.Store(int64(next))
	b.live += next - first
	if n != nil {
		b.plan(reqs, *n, refused)
	}
	b.settle()
	b.mu.Unlock()
	if next > first {
		b.e.dispatcher.Launch(b.ctx, (*observed)(b), b.tasks[first:next])
	}
	return out
}

// refusal returns why the batch refuses a request as the one of index next, nil if it does not. The
// caller holds b.mu.
func (b *Batch) refusal(r *request.Request, next int) error {
	switch {
	case b.freed:
		return stale(b.id)
	case b.canceled:
		return errs.Wrap(errs.TransferFail, "transfer: submit", request.ErrCanceled)
	case next == len(b.tasks):
		return errs.WithHint(errs.Wrap(errs.NoAvailableHandle, "transfer: submit", request.ErrTooManyRequests),
			"the batch was made for %d requests", len(b.tasks))
	}
	return r.Validate()
}

// observed is a Batch as its dispatcher sees it.
type observed Batch

// MovedBytes is where the bytes that arrived are counted.
func (o *observed) MovedBytes() *atomic.Uint64 { return &o.moved }

// Finish makes an accepted request terminal.
func (o *observed) Finish(t *request.Task, s request.State, err error, at time.Time) {
	(*Batch)(o).finish(t, s, err, at)
}

// finish makes a request terminal and counts it in one step: a caller that polls Status may free
// the batch as soon as it sees the last terminal state.
func (b *Batch) finish(t *request.Task, s request.State, err error, at time.Time) {
	if b.hook != nil {
		b.hook(t.Index, request.Status{State: s, Bytes: t.Moved.Load(), Err: err, Done: at})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Finish(s, err, at)
	b.live--
	b.count[s]++
	if err != nil && b.failure == nil {
		b.failure = err
	}
	b.settle()
}

// settle sends the messages that are due when all requests ended, and closes or renews the channel
// of Done. The caller holds b.mu.
func (b *Batch) settle() {
	if b.live == 0 && len(b.due) > 0 {
		b.send()
	}
	switch idle := b.live == 0 && b.sending == 0; {
	case idle && !b.isSettled:
		close(b.settled)
		b.isSettled = true
	case !idle && b.isSettled:
		b.settled = make(chan struct{})
		b.isSettled = false
	}
}

const (
	// maxCapacity bounds the requests of one batch.
	maxCapacity = 1 << 20
	// maxBatches bounds the batches of an engine that are not freed.
	maxBatches = 1 << 16
)

// BatchID names a batch of an engine. An engine never uses one twice; 0 and the largest number are
// never used, since callers in C take them for failure.
type BatchID uint64

// batches is the table of the batches that are not freed.
type batches struct {
	mu   sync.Mutex
	open map[BatchID]*Batch
	last BatchID
}

// init makes the ids of this engine differ from those of other engines, very likely.
func (t *batches) init() {
	t.open = map[BatchID]*Batch{}
	t.last = BatchID(rand.Uint32()>>2+1) << 32
}

func (t *batches) remove(id BatchID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, id)
}

// NewBatch makes a batch for up to capacity requests, at most about a million. The caller frees it.
// InvalidParams, ErrClosed, and ErrTooManyRequests when 65536 batches are not freed.
func (e *Engine) NewBatch(capacity int) (*Batch, error) {
	if capacity < 1 || capacity > maxCapacity {
		return nil, errs.New(errs.InvalidParams, "transfer: make batch", "%d requests is not from 1 to %d", capacity, maxCapacity)
	}
	if e.life.Connecting.Err() != nil {
		return nil, errs.Wrap(errs.TransferFail, "transfer: make batch", lifetime.ErrClosed)
	}
	t := &e.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxBatches {
		return nil, errs.WithHint(errs.Wrap(errs.NoAvailableHandle, "transfer: make batch", request.ErrTooManyRequests), "free batches that are done")
	}
	t.last++
	b := &Batch{e: e, id: t.last, tasks: make([]request.Task, capacity), settled: make(chan struct{}), isSettled: true}
	close(b.settled)
	b.ctx, b.cancel = context.WithCancelCause(e.life.Working)
	t.open[b.id] = b
	return b, nil
}

// Batch finds a batch that is not freed; else ErrStaleBatch.
func (e *Engine) Batch(id BatchID) (*Batch, error) {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	if b := e.batches.open[id]; b != nil {
		return b, nil
	}
	return nil, stale(id)
}

func stale(id BatchID) error {
	return errs.WithHint(errs.Wrap(errs.InvalidParams, "transfer: batch", request.ErrStaleBatch), "%#x was freed, or is not of this engine", uint64(id))
}

// ID names the batch to Engine.Batch.
func (b *Batch) ID() BatchID { return b.id }

// Status tells how far a request is. It takes no lock, so it can be polled. InvalidParams for an
// index that no accepted request has.
func (b *Batch) Status(i int) (request.Status, error) {
	if n := int(b.used.Load()); i < 0 || i >= n {
		return request.Status{}, errs.New(errs.InvalidParams, "transfer: status", "the batch has no request %d, it has %d", i, n)
	}
	return b.tasks[i].Status(), nil
}

// BatchStatus is the state of all requests together: Failed as soon as one failed or ran out of
// time, with the first error; Waiting while one is not terminal; Canceled when one was; else
// Completed, also of an empty batch.
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

// Done returns a channel that is closed when every request submitted so far is terminal, and
// messages to the peers are sent or given up.
func (b *Batch) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled
}

// Wait waits for Done, at most until the context ends, which cancels nothing. The statuses of the
// requests tell how they ended.
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

// Cancel ends the requests that are not terminal and refuses further ones. It returns at once. A
// request of which nothing is in flight ends at once. The memory of any other is not touched any
// more when it is terminal, which takes at most Config.SliceTimeout, and a few seconds more for a
// transport that does not keep deadlines. Repeatable.
func (b *Batch) Cancel() {
	b.mu.Lock()
	b.canceled = true
	b.mu.Unlock()
	b.cancel(request.ErrCanceled)
}

// Free gives the batch back; its id is stale from then on. ErrBatchBusy while a request is not
// terminal: cancel and wait first.
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

// pendingMessage is a message of a batch that was not sent yet.
type pendingMessage struct {
	peer string
	note metadata.Notification
}
