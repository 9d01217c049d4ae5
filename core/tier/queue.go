package tier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// reapBatch is how many completions are reaped at once.
const reapBatch = 64

// queue passes operations to a tier and completions back to the goroutines that wait for them. Safe for concurrent use.
type queue struct {
	tier tier.Tier

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*pending
	space   chan struct{} // closed when the tier may accept more
	pace    pace
}

// pending is an operation that has not completed, or whose buffer the storage may still touch.
type pending struct {
	done   chan tier.Completion // capacity 1
	buffer *memory.Buffer       // released when the operation was quarantined and is returned
}

func newQueue(t tier.Tier) *queue {
	return &queue{tier: t, waiting: map[uint64]*pending{}, space: make(chan struct{})}
}

// do carries out an operation on memory of buffer and returns its completion. It waits while the tier accepts none. A read
// that would not end by its deadline fails at once with UnavailableInCurrentStatus. kept says that the storage may still touch
// the buffer: the queue releases it then, and the caller must not.
func (q *queue) do(ctx context.Context, op tier.Op, buffer *memory.Buffer) (c tier.Completion, kept bool, err error) {
	p := &pending{done: make(chan tier.Completion, 1), buffer: buffer}
	began, bytes := time.Now(), uint64(len(buffer.Bytes()))
	if op.Deadline.IsZero() {
		op.Deadline = began.Add(opTimeout)
	}
	q.mu.Lock()
	if op.Kind == tier.Read {
		if err := q.pace.begin(began, op.Deadline, bytes); err != nil {
			q.mu.Unlock()
			return tier.Completion{}, false, err
		}
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.pace.end(time.Now(), began, bytes, err == nil)
		}()
	}
	q.next++
	op.ID = q.next
	q.waiting[op.ID] = p
	q.mu.Unlock()
	if err := q.submit(ctx, op); err != nil {
		q.mu.Lock()
		delete(q.waiting, op.ID)
		q.mu.Unlock()
		return tier.Completion{}, false, err
	}
	overdue := time.NewTimer(time.Until(op.Deadline) + grace)
	defer overdue.Stop()
	select {
	case c = <-p.done: // By its deadline, and all of them when the tier stops.
	case <-overdue.C:
		c = tier.Completion{Status: tier.Quarantined, Err: errs.New(errs.RPCTimeout, "storage tier", "the plugin completed no operation by its deadline; its buffer is not used again")}
	}
	return c, c.Status == tier.Quarantined, c.Err
}

const (
	// opTimeout bounds an operation of a caller without a deadline.
	opTimeout = 30 * time.Second
	// grace is how much later than its deadline an operation completes at most.
	grace = 5 * time.Second
)

// submit waits until the tier accepts an operation.
func (q *queue) submit(ctx context.Context, op tier.Op) error {
	for {
		q.mu.Lock()
		space := q.space
		q.mu.Unlock()
		n, err := q.tier.Submit([]tier.Op{op})
		if n == 1 || err != nil {
			return err
		}
		select {
		case <-space:
		case <-ctx.Done():
			return errs.Wrap(errs.UnavailableInCurrentStatus, "storage tier: it is busy", ctx.Err())
		}
	}
}

// run reaps completions until the tier stops.
func (q *queue) run(ctx context.Context) {
	got := make([]tier.Completion, reapBatch)
	for {
		n, err := q.tier.Reap(ctx, got)
		for _, c := range got[:n] {
			q.complete(c)
		}
		switch {
		case errors.Is(err, tier.ErrStopped), ctx.Err() != nil:
			q.abandon(errs.Wrap(errs.UnavailableInCurrentStatus, "storage tier: it is stopped", err))
			return
		case n > 0:
			q.mu.Lock()
			close(q.space)
			q.space = make(chan struct{})
			q.mu.Unlock()
		}
	}
}

// complete passes a completion on.
func (q *queue) complete(c tier.Completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.waiting[c.ID]
	if p == nil {
		return
	}
	if c.Status == tier.Returned {
		p.buffer.Release()
	} else {
		p.done <- c
	}
	if c.Status != tier.Quarantined {
		delete(q.waiting, c.ID)
	}
}

// abandon fails what is left. The storage may still touch these buffers, so they are not used again.
func (q *queue) abandon(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.waiting {
		select {
		case p.done <- tier.Completion{Status: tier.Quarantined, Err: err}:
		default: // It is quarantined already.
		}
	}
	clear(q.waiting)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
