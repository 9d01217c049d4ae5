package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// renewWidth bounds the paths that are renewed concurrently.
	renewWidth = 16
	// renewTime bounds one attempt.
	renewTime = 10 * time.Second
	// renewMin and renewMax bound the pause between attempts, which doubles each time.
	renewMin = 20 * time.Millisecond
	renewMax = 5 * time.Second
	// staleMax bounds the pause if the path is renewed and only stale keys are missing. The keys
	// of a peer that restarted stay invalid, and the caller may hold the path for ever.
	staleMax = time.Minute
)

// Lay makes an inner path for every path in a generation that is not used yet. Paths that
// cannot be renewed stay as they are. Lay fails if there are paths and none can be renewed.
func (r *Relay) Lay(ctx context.Context, gen *Generation) error {
	var mu sync.Mutex
	var failed error
	laid, tried := 0, 0
	var all sync.WaitGroup
	for _, p := range r.all() {
		if r.width.Acquire(ctx, 1) != nil {
			break
		}
		all.Go(func() {
			defer r.width.Release(1)
			live, err := p.lay(ctx, gen)
			mu.Lock()
			defer mu.Unlock()
			if live {
				tried++
			}
			if live && err == nil {
				laid++
			}
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case tried > 0 && laid == 0:
		return errs.Wrap(errs.TransferFail, r.op("renew the paths"), failed)
	}
	return nil
}

// lay makes an inner path ahead of time. live reports whether the path works now: only then
// does a failure matter.
func (p *path) lay(ctx context.Context, gen *Generation) (live bool, err error) {
	p.gate.RLock()
	live = p.inner != nil && !p.closed
	p.gate.RUnlock()
	if !live {
		return false, nil
	}
	in, err := p.dial(ctx, gen)
	if err != nil {
		return true, err
	}
	err = p.complete(ctx, in)
	p.gate.Lock()
	defer p.gate.Unlock()
	p.r.mu.Lock()
	over := gen.over
	p.r.mu.Unlock()
	if p.closed || err != nil && len(in.failed) == len(p.keys) || p.next != nil || over {
		p.detach(in)
		return !p.closed, err
	}
	p.next = in
	return true, nil
}

// renewSoon starts the renewal of a path that does not use the current generation, or lacks
// keys there, unless a renewal is in progress.
func (p *path) renewSoon() {
	if !p.due() {
		return
	}
	p.gate.Lock()
	start := !p.renewing && !p.closed
	p.renewing = p.renewing || start
	p.gate.Unlock()
	if !start {
		select {
		case p.rouse <- struct{}{}: // Cut a long pause short.
		default:
		}
		return
	}
	if !p.r.spawn(p.renew) {
		p.gate.Lock()
		p.renewing = false
		p.gate.Unlock()
	}
}

// due reports whether there is something to renew.
func (p *path) due() bool {
	now := p.r.current()
	p.gate.RLock()
	defer p.gate.RUnlock()
	return now != nil && !p.closed && (p.inner == nil || p.inner.gen != now || p.lacks(p.inner))
}

// lacks reports whether an inner path lacks keys. The caller holds the gate.
func (p *path) lacks(in *innerPath) bool {
	return len(in.remotes) < len(p.keys) || slices.ContainsFunc(in.remotes, func(r remote) bool { return !r.ok })
}

// renew renews a path until nothing is left to renew, or no generation is there to renew it in.
func (p *path) renew() {
	pause, warned := renewMin, false
	for p.again() {
		gen := p.r.current()
		if gen == nil || p.attempt(gen) {
			pause = renewMin
			continue
		}
		if p.r.current() != gen { // Try a new generation at once.
			pause = renewMin
			continue
		}
		stale := p.stale(gen)
		if pause >= renewMax && stale != nil && !warned {
			warned = true
			p.r.o.Logger.Warn("the plugin was started again and cannot import some keys of a peer again; operations on them are refused", "peer_incarnation", p.peer.Incarnation, "error", stale)
		}
		timer := time.NewTimer(pause - pause/4 + rand.N(pause/2+1))
		select {
		case <-timer.C:
			longest := renewMax
			if stale != nil {
				longest = staleMax
			}
			pause = min(2*pause, longest)
		case <-p.rouse:
			pause = renewMin
		case <-gen.ended:
		case <-p.r.ctx.Done():
		}
		timer.Stop()
	}
}

// stale returns why keys are missing in an inner path that is otherwise renewed. It returns nil if
// nothing is missing or the path is at fault.
func (p *path) stale(gen *Generation) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.inner == nil || p.inner.gen != gen {
		return nil
	}
	var why error
	for _, err := range p.inner.failed {
		if errs.ClassOf(err) == errs.ClassTransientPath {
			return nil
		}
		why = err
	}
	return why
}

// again reports whether the renewal goes on.
func (p *path) again() bool {
	due := p.due() && p.r.ctx.Err() == nil
	p.gate.Lock()
	p.renewing = due
	p.gate.Unlock()
	// A renewal may have become due just before renewing was cleared, and nothing else starts
	// it.
	if !due && p.r.ctx.Err() == nil && p.due() {
		p.gate.Lock()
		due = !p.renewing
		p.renewing = true
		p.gate.Unlock()
	}
	return due
}

// attempt tries once and reports whether the path is fully renewed.
func (p *path) attempt(gen *Generation) bool {
	if p.r.width.Acquire(p.r.ctx, 1) != nil {
		return false
	}
	defer p.r.width.Release(1)
	ctx, cancel := context.WithTimeout(p.r.ctx, renewTime)
	defer cancel()
	p.gate.RLock()
	in := p.inner
	p.gate.RUnlock()
	if in != nil && in.gen == gen {
		return p.complete(ctx, in) == nil
	}
	in, err := p.dial(ctx, gen)
	if err != nil {
		p.gate.Lock()
		p.why = err
		p.gate.Unlock()
		return false
	}
	err = p.complete(ctx, in)
	p.gate.Lock()
	if p.closed || p.r.current() != gen {
		p.detach(in)
		p.gate.Unlock()
		return false
	}
	old := p.inner
	p.inner, p.why = in, nil
	p.detach(old)
	p.broadcast()
	p.gate.Unlock()
	p.r.Touch()
	return err == nil
}

var _ transport.Path = (*path)(nil)
