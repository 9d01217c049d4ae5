package transfer

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Batch is a set of requests that move while the caller does something else. Each request
// reaches exactly one terminal state. Safe for concurrent use.
type Batch struct {
	e      *Engine
	id     BatchID
	ctx    context.Context
	cancel context.CancelCauseFunc
	moved  atomic.Uint64

	hook func(*request.Task) // called for every end before Done is closed; nil for none

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
	// Index names the request to Status: accepted requests of a batch are counted
	// from 0, over all calls of Submit. It is -1 for a refused one.
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

// SubmitNotify is Submit with a message to the peer of the first request. It is sent once
// when every request of the batch is completed; it is not sent when one failed or a request
// of this call was refused. Notified reports that.
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

// refusal returns why the batch refuses a request as the one of index next, nil if it does not. The caller holds b.mu.
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

// Ended is called once for each accepted request, after it became terminal.
func (o *observed) Ended(t *request.Task) { (*Batch)(o).ended(t) }

// ended counts a request that became terminal.
func (b *Batch) ended(t *request.Task) {
	if b.hook != nil {
		b.hook(t)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live--
	b.count[t.State.Load()]++
	if t.Err != nil && b.failure == nil {
		b.failure = t.Err
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
