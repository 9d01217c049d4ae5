// Package lifetime runs the goroutines of a transfer engine and ends them.
package lifetime

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a closed engine answers.
var ErrClosed = errors.New("the transfer engine is closed")

// Lifetime is what runs in an engine, and how that ends. Closing refuses new transfers and new
// goroutines first, waits for transfers, ends batches, and then ends the reapers.
type Lifetime struct {
	// Connecting ends when closing begins: nothing is connected any more. Working ends when closing
	// gives up waiting: batches are cancelled. Reaping ends after that.
	Connecting, Working, Reaping context.Context
	endConnecting, endReaping    context.CancelFunc
	endWorking                   context.CancelCauseFunc

	mu        sync.Mutex
	closed    bool
	transfers tally // running calls, and what batches began
	tasks     tally // connects, reapers, watchers
}

// New returns a lifetime that has not ended.
func New() *Lifetime {
	l := new(Lifetime)
	l.Connecting, l.endConnecting = context.WithCancel(context.Background())
	l.Working, l.endWorking = context.WithCancelCause(context.Background())
	l.Reaping, l.endReaping = context.WithCancel(context.Background())
	return l
}

// Spawn runs f in the background unless the engine is closed.
func (l *Lifetime) Spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.tasks.start(f)
	return true
}

// Begin counts a transfer, unless the engine is closed. The caller ends it with finish.
func (l *Lifetime) Begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.transfers.add()
	return true
}

// Finish ends a transfer that begin counted.
func (l *Lifetime) Finish() { l.transfers.done() }

// ContinueWith runs f in the background as a part of a transfer that begin counted.
func (l *Lifetime) ContinueWith(f func()) { l.transfers.start(f) }

// Sleep waits for d. It returns false when the engine was closed meanwhile.
func (l *Lifetime) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.Connecting.Done():
		return false
	}
}

// Refuse lets nothing new begin.
func (l *Lifetime) Refuse() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// End waits for transfers until the context ends. It then cancels batches with the cause, calls
// closePaths, and gives everything that is left up to twice the grace. refuse comes before it.
func (l *Lifetime) End(ctx context.Context, cause error, grace time.Duration, closePaths func(context.Context)) error {
	l.endConnecting()
	err := l.transfers.Wait(ctx)
	l.endWorking(cause)
	if err != nil {
		rest, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*grace)
		defer stop()
		ctx = rest
	}
	closePaths(ctx)
	if err != nil {
		_ = l.transfers.Wait(ctx) // The first wait has already reported that it took too long.
	}
	if ctx.Err() != nil { // The rest has been told to end and only needs to be scheduled.
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer stop()
		ctx = last
	}
	err = errors.Join(err, l.tasks.Wait(ctx))
	l.endReaping()
	return err
}

// tally is a sync.WaitGroup that can tell at once that there is nothing to wait for.
type tally struct {
	wg sync.WaitGroup
	n  atomic.Int64
}

func (t *tally) add() {
	t.n.Add(1)
	t.wg.Add(1)
}

func (t *tally) done() {
	t.n.Add(-1)
	t.wg.Done()
}

func (t *tally) start(f func()) {
	t.add()
	go func() {
		defer t.done()
		f()
	}()
}

// Wait waits until everything counted is done, or until the context ends. With a context that has
// ended it still succeeds when there is nothing to wait for.
func (t *tally) Wait(ctx context.Context) error {
	if t.n.Load() == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() { t.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	if t.n.Load() == 0 {
		return nil
	}
	return ctx.Err()
}
