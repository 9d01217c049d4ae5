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
	// renewWidth bounds the paths that are renewed at once.
	renewWidth = 16
	// renewTime bounds one attempt.
	renewTime = 10 * time.Second
	// renewMin and renewMax are the pauses between attempts, which double.
	renewMin = 20 * time.Millisecond
	renewMax = 5 * time.Second
	// staleMax is the longest one where the path is renewed but for keys that will not do: those of a
	// peer that restarted never will, and who has them may keep them for ever.
	staleMax = time.Minute
)

// Lay makes a leg in a life for every path, before it is used. Paths that cannot be
// renewed go on as they are; an error when none can although there are some.
func (r *Relay) Lay(ctx context.Context, l *Life) error {
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
			live, err := p.lay(ctx, l)
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

// lay makes a leg beforehand. live: the path works, so that it matters.
func (p *path) lay(ctx context.Context, l *Life) (live bool, err error) {
	p.gate.RLock()
	live = p.leg != nil && !p.closed
	p.gate.RUnlock()
	if !live {
		return false, nil
	}
	g, err := p.dial(ctx, l)
	if err != nil {
		return true, err
	}
	err = p.complete(ctx, g)
	p.gate.Lock()
	defer p.gate.Unlock()
	p.r.mu.Lock()
	over := l.over
	p.r.mu.Unlock()
	if p.closed || err != nil && len(g.failed) == len(p.keys) || p.next != nil || over {
		p.detach(g)
		return !p.closed, err
	}
	p.next = g
	return true, nil
}

// renewSoon starts the renewal of a path that is not on the present life, or lacks keys
// there, unless one is under way.
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
		case p.rouse <- struct{}{}: // It may be in a long pause, and there is something new.
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
	return now != nil && !p.closed && (p.leg == nil || p.leg.life != now || p.lacks(p.leg))
}

// lacks reports whether a leg lacks keys. The caller holds the gate.
func (p *path) lacks(g *leg) bool {
	return len(g.remotes) < len(p.keys) || slices.ContainsFunc(g.remotes, func(r remote) bool { return !r.ok })
}

// renew renews a path until there is nothing to renew, or no life to renew it in.
func (p *path) renew() {
	pause, warned := renewMin, false
	for p.again() {
		l := p.r.current()
		if l == nil || p.attempt(l) {
			pause = renewMin
			continue
		}
		if p.r.current() != l { // A new life deserves a new try at once.
			pause = renewMin
			continue
		}
		stale := p.stale(l)
		if pause >= renewMax && stale != nil && !warned {
			warned = true
			p.r.o.Logger.Warn("the plugin was started again, and keys of a peer cannot be imported again; operations on them are refused", "peer_incarnation", p.peer.Incarnation, "error", stale)
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
		case <-l.ended:
		case <-p.r.ctx.Done():
		}
		timer.Stop()
	}
}

// stale returns why keys are missing in a leg that is otherwise renewed, where that is no fault of
// the path; else nil.
func (p *path) stale(l *Life) error {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.leg == nil || p.leg.life != l {
		return nil
	}
	var why error
	for _, err := range p.leg.failed {
		if errs.ClassOf(err) == errs.ClassTransientPath {
			return nil
		}
		why = err
	}
	return why
}

// again reports whether to go on; false ends the renewal.
func (p *path) again() bool {
	due := p.due() && p.r.ctx.Err() == nil
	p.gate.Lock()
	p.renewing = due
	p.gate.Unlock()
	// What came due just before is not left to nobody.
	if !due && p.r.ctx.Err() == nil && p.due() {
		p.gate.Lock()
		due = !p.renewing
		p.renewing = true
		p.gate.Unlock()
	}
	return due
}

// attempt tries once, and reports whether all is well.
func (p *path) attempt(l *Life) bool {
	if p.r.width.Acquire(p.r.ctx, 1) != nil {
		return false
	}
	defer p.r.width.Release(1)
	ctx, cancel := context.WithTimeout(p.r.ctx, renewTime)
	defer cancel()
	p.gate.RLock()
	g := p.leg
	p.gate.RUnlock()
	if g != nil && g.life == l {
		return p.complete(ctx, g) == nil
	}
	g, err := p.dial(ctx, l)
	if err != nil {
		p.gate.Lock()
		p.why = err
		p.gate.Unlock()
		return false
	}
	err = p.complete(ctx, g)
	p.gate.Lock()
	if p.closed || p.r.current() != l {
		p.detach(g)
		p.gate.Unlock()
		return false
	}
	old := p.leg
	p.leg, p.why = g, nil
	p.detach(old)
	p.broadcast()
	p.gate.Unlock()
	p.r.Touch()
	return err == nil
}

var _ transport.Path = (*path)(nil)
