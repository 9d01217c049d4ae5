package relay

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxWaits bounds the wait contexts that a path keeps for its reapers.
const maxWaits = 8

// reaping delivers completions to the caller: straight from the current inner path, and
// through a queue from the earlier ones.
type reaping struct {
	mu       sync.Mutex
	done     []transport.Completion
	draining []*innerPath // inner paths that are being drained
	waits    []*wait
	wake     chan struct{} // closed and replaced when reapers have to look again
}

// wait is a reaper's context that can be cancelled to call the reaper away from an inner path.
type wait struct {
	parent <-chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		p.gate.RLock()
		in, closed := p.inner, p.closed
		p.mu.Lock()
		n, w, wake := p.look(ctx, dst, in)
		// Once the relay is closed, a path without an inner path gets no other.
		ended := (closed || in == nil && p.r.ctx.Err() != nil) && len(p.draining) == 0
		p.mu.Unlock()
		p.gate.RUnlock()
		switch {
		case n > 0:
			return n, nil
		case ended:
			return 0, p.errClosed()
		case in == nil:
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		n, err := in.path.Reap(w, dst)
		if n > 0 {
			in.reaped(n)
			return n, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if w.Err() == nil {
			p.broken(in, err)
		}
	}
}

// look takes queued completions. If there are none, it returns the context with which to wait
// on an inner path. The caller holds the gate and p.mu.
func (p *path) look(ctx context.Context, dst []transport.Completion, in *innerPath) (int, context.Context, chan struct{}) {
	if n := copy(dst, p.done); n > 0 {
		p.done = slices.Delete(p.done, 0, n)
		return n, nil, nil
	}
	if in == nil {
		return 0, nil, p.wake
	}
	for _, w := range p.waits {
		if w.parent == ctx.Done() && w.ctx.Err() == nil {
			return 0, w.ctx, p.wake
		}
	}
	w := &wait{parent: ctx.Done()}
	w.ctx, w.cancel = context.WithCancel(ctx)
	p.waits = slices.DeleteFunc(p.waits, func(o *wait) bool { return o.ctx.Err() != nil })
	if len(p.waits) == maxWaits {
		p.waits[0].cancel()
		p.waits = slices.Delete(p.waits, 0, 1)
	}
	p.waits = append(p.waits, w)
	return 0, w.ctx, p.wake
}

// broken takes an inner path out of use because Reap failed on it.
func (p *path) broken(in *innerPath, err error) {
	p.gate.Lock()
	if p.inner == in {
		p.inner, p.why = nil, nil
		if !errors.Is(err, transport.ErrPathClosed) {
			p.why = err
		}
		p.detach(in)
	}
	p.gate.Unlock()
	p.r.Touch()
	p.renewSoon()
}

// push queues completions of an inner path that is being drained.
func (p *path) push(in *innerPath, got []transport.Completion) {
	if len(got) == 0 {
		return
	}
	in.reaped(len(got))
	p.mu.Lock()
	p.done = append(p.done, got...)
	p.mu.Unlock()
	p.broadcast()
}

// forget drops an inner path that is drained.
func (p *path) forget(in *innerPath) {
	p.mu.Lock()
	p.draining = slices.DeleteFunc(p.draining, func(o *innerPath) bool { return o == in })
	p.mu.Unlock()
	p.broadcast()
}

// broadcast makes every reaper look again.
func (p *path) broadcast() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.wake)
	p.wake = make(chan struct{})
	for _, w := range p.waits {
		w.cancel()
	}
	p.waits = p.waits[:0]
}

// closeInner waits until every inner path is closed and drained.
func (p *path) closeInner(ctx context.Context) error {
	p.broadcast()
	p.mu.Lock()
	draining := slices.Clone(p.draining)
	p.mu.Unlock()
	for _, in := range draining {
		in.close()
	}
	for _, in := range draining {
		select {
		case <-in.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
