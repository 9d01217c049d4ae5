package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// peerEnv is what the peers of an engine share.
type peerEnv struct {
	*pathEnv
	dir      metadata.Directory
	carriers *carrierSet
	// connecting is called before every connect.
	connecting func()
}

// peer is another node, or this one under a name that is not its own.
type peer struct {
	name string
	env  *peerEnv

	mu      sync.Mutex
	paths   []*peerPath // of the last connect, best first; empty before
	fresh   bool        // the paths may be used without asking the directory
	gen     uint64      // counts connects
	epoch   uint64      // counts restarts of the peer that were noticed
	life    uint64      // the generation of the peer at the last connect, 0 where it does not tell
	asked   time.Time   // when the lookup began that led to the paths
	tried   time.Time   // when the last connect ended
	lacks   bool        // a transport that both sides have has no path, or nothing answers on it
	pending *attempt
	// fails counts failures in a row.
	fails    int
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
	// refresh: no request needs it, since the paths in use work.
	refresh bool
}

// wait returns the result of a connect.
func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, "transfer: fetch a descriptor", ctx.Err())
	}
}

// route is the paths of a peer as one group uses them.
type route struct {
	paths []*peerPath
	gen   uint64
	epoch uint64
}

// admit fails fast while the peer is backed off, except for one request that finds out whether
// the peer is back.
func (p *peer) admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.env.cfg.NoCache && p.pending == nil {
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

// renew asks the directory anew, for a group that failed with the paths of gen. Groups
// that fail together share one renewal.
func (p *peer) renew(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen == gen {
		p.fresh = false
	}
}

// askedSince reports whether the paths are of a lookup that began after t: the memory that the
// peer had registered at t is known.
func (p *peer) askedSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked.After(t)
}

// miss notes that nothing answers on one of the paths of gen while others may work: mend tries
// that path again.
func (p *peer) miss(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lacks = p.lacks || p.gen == gen
}

// usable reports whether requests may use the paths. The caller holds p.mu.
func (p *peer) usable() bool {
	if !p.fresh {
		return false
	}
	for _, w := range p.paths {
		if !w.dead.Load() {
			return true
		}
	}
	return false
}

// pause is the back-off after the failures so far. The caller holds p.mu.
func (p *peer) pause() time.Duration {
	d := p.env.cfg.CoolDown
	for i := 1; i < p.fails && d < p.env.cfg.MaxCoolDown; i++ {
		d *= 2
	}
	return min(d, p.env.cfg.MaxCoolDown)
}

// failed notes that the peer as a whole did not answer.
func (p *peer) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails++
	p.cause = err
	p.cool = time.Now().Add(p.pause())
	if p.fails == 1 {
		p.env.log.Warn("a peer does not answer", "peer", p.name, "error", err)
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
		p.env.log.Info("a peer answers again", "peer", p.name, "failures", p.fails)
	}
	p.fails, p.cause = 0, nil
}

// revive ends the back-off. The next request asks the directory anew.
func (p *peer) revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails, p.cause, p.fresh = 0, nil, false
	}
}

// release gives back the peer that peers.get returned.
func (p *peer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.lastUsed = time.Now()
}

// current returns the paths of the last connect.
func (p *peer) current() []*peerPath {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paths
}

// computesChecksums reports whether the first path that works computes the checksums of what it moves.
func (p *peer) computesChecksums() bool {
	for _, w := range p.current() {
		if !w.dead.Load() {
			return w.summing != nil && w.summing.Sums()
		}
	}
	return false
}

// close closes the peer's paths.
func (p *peer) close(ctx context.Context) {
	p.mu.Lock()
	paths := p.paths
	p.paths, p.fresh = nil, false
	p.mu.Unlock()
	for _, w := range paths {
		w.close(ctx)
	}
}
