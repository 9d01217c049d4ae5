package relay

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxWaits bounds the reapers whose waiting is kept for the next time.
const maxWaits = 8

// reaping is how completions get to the caller: straight from the leg, and from a queue
// for those of legs of before.
type reaping struct {
	mu    sync.Mutex
	done  []transport.Completion
	legs  []*leg // that are being drained
	waits []*wait
	wake  chan struct{} // closed, and made anew, when a reaper has to look again
}

// wait is a context of a reaper that can be called away from a leg.
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
		g, closed := p.leg, p.closed
		p.mu.Lock()
		n, w, wake := p.look(ctx, dst, g)
		// Without a leg none comes any more once the relay is closed.
		ended := (closed || g == nil && p.r.ctx.Err() != nil) && len(p.legs) == 0
		p.mu.Unlock()
		p.gate.RUnlock()
		switch {
		case n > 0:
			return n, nil
		case ended:
			return 0, p.errClosed()
		case g == nil:
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		n, err := g.path.Reap(w, dst)
		if n > 0 {
			g.reaped(n)
			return n, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if w.Err() == nil {
			p.broken(g, err)
		}
	}
}

// look takes what is queued; else it returns the context to wait with at a leg. The caller
// holds the gate and p.mu.
func (p *path) look(ctx context.Context, dst []transport.Completion, g *leg) (int, context.Context, chan struct{}) {
	if n := copy(dst, p.done); n > 0 {
		p.done = slices.Delete(p.done, 0, n)
		return n, nil, nil
	}
	if g == nil {
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

// broken takes a leg out of use whose reaping failed.
func (p *path) broken(g *leg, err error) {
	p.gate.Lock()
	if p.leg == g {
		p.leg, p.why = nil, nil
		if !errors.Is(err, transport.ErrPathClosed) {
			p.why = err
		}
		p.detach(g)
	}
	p.gate.Unlock()
	p.r.Touch()
	p.renewSoon()
}

// push queues completions of a leg that is being drained.
func (p *path) push(g *leg, got []transport.Completion) {
	if len(got) == 0 {
		return
	}
	g.reaped(len(got))
	p.mu.Lock()
	p.done = append(p.done, got...)
	p.mu.Unlock()
	p.broadcast()
}

// forget drops a leg that is drained.
func (p *path) forget(g *leg) {
	p.mu.Lock()
	p.legs = slices.DeleteFunc(p.legs, func(o *leg) bool { return o == g })
	p.mu.Unlock()
	p.broadcast()
}

// broadcast has every reaper look again.
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

// closeLegs waits until every leg is closed and drained.
func (p *path) closeLegs(ctx context.Context) error {
	p.broadcast()
	p.mu.Lock()
	legs := slices.Clone(p.legs)
	p.mu.Unlock()
	for _, g := range legs {
		g.close()
	}
	for _, g := range legs {
		select {
		case <-g.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
