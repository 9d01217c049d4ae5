package transfer

import (
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// peer is another node, or this one seen under a name that is not its own.
type peer struct {
	name string
	e    *Engine

	mu       sync.Mutex
	links    []*link   // of the last connect, best first; empty before
	fresh    bool      // links may be used without asking the directory
	gen      uint64    // counts connects
	epoch    uint64    // counts restarts of the peer that were noticed
	life     uint64    // of the peer at the last connect, 0 where it does not tell
	asked    time.Time // when the look-up began that links are of
	tried    time.Time // when the last connect ended
	lacks    bool      // a transport that both sides have has no link, or nobody behind it
	pending  *attempt
	fails    int // failures in a row
	cool     time.Time
	cause    error
	users    int
	lastUsed time.Time
}

// attempt is a connect that several requests wait for.
type attempt struct {
	began time.Time
	done  chan struct{}
	err   error
	// refresh: nobody needs it, the links in use work.
	refresh bool
}

// lane is the links of a peer as one group uses them.
type lane struct {
	links []*link
	gen   uint64
	epoch uint64
}

// admit fails fast while the peer cools down, but for one request that finds out whether
// the peer is back.
func (p *peer) admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.e.cfg.NoCache && p.pending == nil {
		p.fresh = false
	}
	if p.fails == 0 {
		return nil
	}
	now := time.Now()
	if now.Before(p.cool) || p.pending != nil {
		return errs.WithClass(errs.ClassTransientPeer, "transfer: "+p.name+" failed a moment ago and is left alone for now", p.cause)
	}
	p.cool = now.Add(p.pause())
	return nil
}

// renew asks the directory anew, for a group that failed with the links of gen. Groups
// that fail together share one renewal.
func (p *peer) renew(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen == gen {
		p.fresh = false
	}
}

// ask asks the directory anew for a group that misses something in the links of gen, which
// stay in use. No attempt where they were renewed meanwhile.
func (p *peer) ask(gen uint64) (*attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen != gen {
		return nil, nil
	}
	return p.start(true)
}

// askedSince reports whether the links are of a look-up that began after t: what the peer had
// registered at t is known.
func (p *peer) askedSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked.After(t)
}

// obtain returns the links, or the connect to wait for. It does not block.
func (p *peer) obtain() (lane, *attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usable() {
		p.mend()
		return lane{links: p.links, gen: p.gen, epoch: p.epoch}, nil, nil
	}
	a, err := p.start(false)
	return lane{}, a, err
}

// start returns the connect under way, or begins one. The caller holds p.mu.
func (p *peer) start(refresh bool) (*attempt, error) {
	if p.pending != nil {
		return p.pending, nil
	}
	a := &attempt{began: time.Now(), done: make(chan struct{}), refresh: refresh}
	p.pending = a
	if !p.e.spawn(func() { p.connect(a) }) {
		p.pending = nil
		return nil, errs.Wrap(errs.TransferFail, "transfer", ErrClosed)
	}
	return a, nil
}

// miss notes that nobody answers behind one of the links of gen while others may work: it is
// left to mend to try again.
func (p *peer) miss(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lacks = p.lacks || p.gen == gen
}

// mend connects anew in the background while a transport that both sides have is not in
// use, now and then; requests go over the others meanwhile. The caller holds p.mu.
func (p *peer) mend() {
	broken := p.lacks || slices.ContainsFunc(p.links, func(l *link) bool { return l.dead.Load() })
	if broken && time.Since(p.tried) >= p.e.cfg.MaxRailPause {
		_, _ = p.start(true) // A closed engine needs none.
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
