package lifetime

import (
	"context"
	"sync"
	"sync/atomic"
)

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
