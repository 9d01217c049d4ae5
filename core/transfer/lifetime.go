package transfer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a closed engine answers.
var ErrClosed = errors.New("the transfer engine is closed")

// lifetime is what runs in an engine, and how that ends. Closing refuses new transfers and new
// goroutines first, waits for transfers, ends batches, and then ends the reapers.
type lifetime struct {
	// connecting ends when closing begins: nothing is connected any more. working ends when
	// closing gives up waiting: batches are cancelled. reaping ends after that.
	connecting, working, reaping context.Context
	endConnecting, endReaping    context.CancelFunc
	endWorking                   context.CancelCauseFunc

	mu        sync.Mutex
	closed    bool
	transfers tally // running calls, and what batches began
	tasks     tally // connects, reapers, watchers
}

func newLifetime() *lifetime {
	l := new(lifetime)
	l.connecting, l.endConnecting = context.WithCancel(context.Background())
	l.working, l.endWorking = context.WithCancelCause(context.Background())
	l.reaping, l.endReaping = context.WithCancel(context.Background())
	return l
}

// spawn runs f in the background unless the engine is closed.
func (l *lifetime) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.tasks.start(f)
	return true
}

// begin counts a transfer, unless the engine is closed. The caller ends it with finish.
func (l *lifetime) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.transfers.add()
	return true
}

// finish ends a transfer that begin counted.
func (l *lifetime) finish() { l.transfers.done() }

// continueWith runs f in the background as a part of a transfer that begin counted.
func (l *lifetime) continueWith(f func()) { l.transfers.start(f) }

// sleep waits for d. It returns false when the engine was closed meanwhile.
func (l *lifetime) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.connecting.Done():
		return false
	}
}

// refuse lets nothing new begin.
func (l *lifetime) refuse() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// end waits for transfers until the context ends. It then cancels batches with the cause, calls
// closePaths, and gives everything that is left up to twice the grace. refuse comes before it.
func (l *lifetime) end(ctx context.Context, cause error, grace time.Duration, closePaths func(context.Context)) error {
	l.endConnecting()
	err := l.transfers.wait(ctx)
	l.endWorking(cause)
	if err != nil {
		rest, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*grace)
		defer stop()
		ctx = rest
	}
	closePaths(ctx)
	if err != nil {
		_ = l.transfers.wait(ctx) // The first wait has already reported that it took too long.
	}
	if ctx.Err() != nil { // The rest has been told to end and only needs to be scheduled.
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer stop()
		ctx = last
	}
	err = errors.Join(err, l.tasks.wait(ctx))
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

// wait waits until everything counted is done, or until the context ends. With a context that has
// ended it still succeeds when there is nothing to wait for.
func (t *tally) wait(ctx context.Context) error {
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
