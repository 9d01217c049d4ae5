package pathkit

import (
	"context"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Complete queues a completion: OK where err is nil, Quarantined with doubt, else Failed.
// It is for an operation that never was active, because it is empty or failed at once; others
// end with Finish. The lock is held.
func (b *Base[R, T, O]) Complete(id uint64, err error, doubt bool) {
	b.complete(transport.Completion{ID: id}, err, doubt)
}

func (b *Base[R, T, O]) complete(c transport.Completion, err error, doubt bool) {
	c.Status, c.Err = transport.OK, err
	switch {
	case err == nil:
	case doubt:
		c.Status = transport.Quarantined
	default:
		c.Status = transport.Failed
	}
	if b.deliver != nil && b.deliver(c) {
		if b.closed { // Reap may have to say that this is the end.
			b.Signal()
		}
		return
	}
	b.done = append(b.done, c)
	b.pending.Add(1)
	b.Signal()
}

// DeliverTo implements transport.Extras.Deliver. It pays for a path whose reaper sleeps until
// completions wake it, not for one whose Reap polls. f is called with the lock held. The lock is not
// held.
func (b *Base[R, T, O]) DeliverTo(f func(transport.Completion) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver = f
}

// Signal wakes one reaper, also where there is nothing to take; who takes completions wakes
// the next while there are more. Safe with and without the lock.
func (b *Base[R, T, O]) Signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// Pending is how many completions can be reaped. Safe with and without the lock.
func (b *Base[R, T, O]) Pending() int { return int(b.pending.Load()) }

// Reap implements transport.Path. The lock is not held.
func (b *Base[R, T, O]) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		n, err := b.Take(dst)
		if n > 0 || err != nil {
			return n, err
		}
		if err := b.Await(ctx); err != nil {
			return 0, err
		}
	}
}

// Take moves completions to dst and does not wait: none and nil where there are none now,
// ErrClosed where none will come any more. With Await it makes a Reap that does something else
// before it sleeps. The lock is not held.
func (b *Base[R, T, O]) Take(dst []transport.Completion) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(dst, b.done[b.reaped:])
	clear(b.done[b.reaped : b.reaped+n])
	b.reaped += n
	b.pending.Add(-int64(n))
	if b.reaped == len(b.done) {
		b.done, b.reaped = b.done[:0], 0
	} else if b.reaped > len(b.done)/2 {
		kept := copy(b.done, b.done[b.reaped:])
		clear(b.done[kept:])
		b.done, b.reaped = b.done[:kept], 0
	}
	ended := b.closed && len(b.active) == 0 && len(b.done) == 0
	if len(b.done) > 0 || ended {
		b.Signal()
	}
	if ended && n == 0 {
		return 0, b.ErrClosed()
	}
	return n, nil
}

// Await waits for the next Signal, which need not mean that there is something to take. The
// error says that the context ended first. The lock is not held.
func (b *Base[R, T, O]) Await(ctx context.Context) error {
	select {
	case <-b.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: reap: %w", b.name, ctx.Err())
	}
}

// Drain waits until wg is at zero, or returns an error that says what is still going on
// when the context ends. It is how Close ends. The lock is not held.
func (b *Base[R, T, O]) Drain(ctx context.Context, wg *sync.WaitGroup, what string) error {
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: close: %s: %w", b.name, what, ctx.Err())
	}
}
