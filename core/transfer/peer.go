package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// peer is another node, or this one seen under a name that is not its own.
type peer struct {
	name string
	e    *Engine

	mu       sync.Mutex
	links    []*link // of the last connect, best first; empty before
	fresh    bool    // links may be used without asking the directory
	gen      uint64  // counts connects
	epoch    uint64  // counts restarts of the peer that were noticed
	asked    time.Time
	pending  *attempt
	fails    int // failures in a row
	cool     time.Time
	cause    error
	users    int
	lastUsed time.Time
}

// attempt is a connect that several requests wait for.
type attempt struct {
	done chan struct{}
	err  error
}

// lane is the links of a peer as one group uses them.
type lane struct {
	links []*link
	gen   uint64
	epoch uint64
}

// lane returns the links, connecting first where there are none. It fails fast while the
// peer cools down, but for one request that finds out whether the peer is back.
func (p *peer) lane(ctx context.Context) (lane, error) {
	p.mu.Lock()
	if p.fails > 0 {
		now := time.Now()
		if now.Before(p.cool) || p.pending != nil {
			err := p.cause
			p.mu.Unlock()
			return lane{}, errs.WithClass(errs.ClassTransientPeer, "transfer: "+p.name+" failed a moment ago and is left alone for now", err)
		}
		p.cool = now.Add(p.pause())
	}
	return p.obtain(ctx)
}

// renew is lane with a fresh answer of the directory, for a group that failed with the
// links of gen. Groups that fail together share one renewal.
func (p *peer) renew(ctx context.Context, gen uint64) (lane, error) {
	p.mu.Lock()
	if p.gen == gen {
		p.fresh = false
	}
	return p.obtain(ctx)
}

// recent reports whether the directory's answer is so new that asking again is of no use.
func (p *peer) recent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.asked) < p.e.cfg.CoolDown
}

// obtain waits for links. The caller holds p.mu, which is unlocked on return.
func (p *peer) obtain(ctx context.Context) (lane, error) {
	for {
		if p.usable() {
			ln := lane{links: p.links, gen: p.gen, epoch: p.epoch}
			p.mu.Unlock()
			return ln, nil
		}
		a := p.pending
		if a == nil {
			a = &attempt{done: make(chan struct{})}
			p.pending = a
			if !p.e.spawn(func() { p.connect(a) }) {
				p.pending = nil
				p.mu.Unlock()
				return lane{}, errs.Wrap(errs.TransferFail, "transfer", ErrClosed)
			}
		}
		p.mu.Unlock()
		select {
		case <-a.done:
		case <-ctx.Done():
			return lane{}, errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+p.name, errs.Wrap(errs.TransferFail, "", ctx.Err()))
		}
		if a.err != nil {
			return lane{}, a.err
		}
		p.mu.Lock()
	}
}

func (p *peer) usable() bool {
	if !p.fresh {
		return false
	}
	for _, l := range p.links {
		if !l.dead.Load() {
			return true
		}
	}
	return false
}

// pause is the cool-down after the failures so far. The caller holds p.mu.
func (p *peer) pause() time.Duration {
	d := p.e.cfg.CoolDown
	for i := 1; i < p.fails && d < p.e.cfg.MaxCoolDown; i++ {
		d *= 2
	}
	return min(d, p.e.cfg.MaxCoolDown)
}

// failed notes that the peer as a whole did not answer.
func (p *peer) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails++
	p.cause = err
	p.cool = time.Now().Add(p.pause())
	if p.fails == 1 {
		p.e.log.Warn("a peer does not answer", "peer", p.name, "error", err)
	}
}

// stale makes the next request ask the directory anew.
func (p *peer) stale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// worked notes that the peer answers.
func (p *peer) worked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.e.log.Info("a peer answers again", "peer", p.name, "failures", p.fails)
	}
	p.fails, p.cause = 0, nil
}
