// Package gate counts the calls in flight of something that can be closed.
package gate

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Gate lets calls in until it is closed. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// Enter begins a call, which Leave ends. After Close it returns store.ErrClosed; op is the operation
// of that error.
func (g *Gate) Enter(op string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errs.Wrap(errs.Internal, op, store.ErrClosed)
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Close refuses new calls and returns whether the gate was open.
func (g *Gate) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := !g.closed
	g.closed = true
	return open
}

// Closed reports whether the gate is closed.
func (g *Gate) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Wait waits for the calls in flight, until the context ends.
func (g *Gate) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { g.calls.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
