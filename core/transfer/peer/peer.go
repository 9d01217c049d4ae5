// Package peer keeps the peers of a transfer engine: it looks them up, connects to them, and backs
// off those that do not answer.
package peer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Env is what the peers of an engine share.
type Env struct {
	*path.Env
	Dir      metadata.Directory
	Carriers *carrier.Set
	// Connecting is called before every connect.
	Connecting func()
}

// Peer is another node, or this one under a name that is not its own.
type Peer struct {
	Name string
	env  *Env

	mu         sync.Mutex
	paths      []*path.Path // of the last connect, best first; empty before
	fresh      bool         // the paths may be used without asking the directory
	gen        uint64       // counts connects
	epoch      uint64       // counts restarts of the peer that were noticed
	generation uint64       // the generation of the peer at the last connect, 0 where it does not tell
	asked      time.Time    // when the lookup began that led to the paths
	tried      time.Time    // when the last connect ended
	lacks      bool         // a transport that both sides have has no path, or nothing answers on it
	pending    *Attempt
	// fails counts failures in a row.
	fails    int
	cool     time.Time
	cause    error
	users    int
	lastUsed time.Time
}

// Attempt is a connect that several requests wait for.
type Attempt struct {
	began time.Time
	Done  chan struct{}
	Err   error
	// refresh: no request needs it, since the paths in use work.
	refresh bool
}

// wait returns the result of a connect.
func (a *Attempt) wait(ctx context.Context) error {
	select {
	case <-a.Done:
		return a.Err
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, "transfer: fetch a descriptor", ctx.Err())
	}
}

// Route is the paths of a peer as one group uses them.
type Route struct {
	Paths []*path.Path
	Gen   uint64
	Epoch uint64
}

// Admit fails fast while the peer is backed off, except for one request that finds out whether the
// peer is back.
func (p *Peer) Admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.env.Cfg.NoCache && p.pending == nil {
		p.fresh = false
	}
	if p.fails == 0 {
		return nil
	}
	now := time.Now()
	if now.Before(p.cool) || p.pending != nil {
		return errs.WithClass(errs.ClassTransientPeer, "transfer: "+p.Name+" failed a moment ago and is backed off", p.cause)
	}
	p.cool = now.Add(p.pause())
	return nil
}

// Renew asks the directory anew, for a group that failed with the paths of gen. Groups that fail
// together share one renewal.
func (p *Peer) Renew(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen == gen {
		p.fresh = false
	}
}

// AskedSince reports whether the paths are of a lookup that began after t: the memory that the peer
// had registered at t is known.
func (p *Peer) AskedSince(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked.After(t)
}

// Miss notes that nothing answers on one of the paths of gen while others may work: repair tries
// that path again.
func (p *Peer) Miss(gen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lacks = p.lacks || p.gen == gen
}

// usable reports whether requests may use the paths. The caller holds p.mu.
func (p *Peer) usable() bool {
	if !p.fresh {
		return false
	}
	for _, w := range p.paths {
		if !w.Dead.Load() {
			return true
		}
	}
	return false
}

// pause is the back-off after the failures so far. It does not grow while the peer's machine refuses
// connections: asking again costs it next to nothing, and a process that restarts is found at once.
// The caller holds p.mu.
func (p *Peer) pause() time.Duration {
	d := p.env.Cfg.CoolDown
	if errors.Is(p.cause, syscall.ECONNREFUSED) {
		return d
	}
	for i := 1; i < p.fails && d < p.env.Cfg.MaxCoolDown; i++ {
		d *= 2
	}
	return min(d, p.env.Cfg.MaxCoolDown)
}

// Failed notes that the peer as a whole did not answer.
func (p *Peer) Failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails++
	p.cause = err
	p.cool = time.Now().Add(p.pause())
	if p.fails == 1 {
		p.env.Log.Warn("a peer does not answer", "peer", p.Name, "error", err)
	}
}

// Stale makes the next request ask the directory anew.
func (p *Peer) Stale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// Worked notes that the peer answers.
func (p *Peer) Worked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.env.Log.Info("a peer answers again", "peer", p.Name, "failures", p.fails)
	}
	p.fails, p.cause = 0, nil
}

// Revive ends the back-off. The next request asks the directory anew.
func (p *Peer) Revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails, p.cause, p.fresh = 0, nil, false
	}
}

// Release gives back the peer that Table.Get returned.
func (p *Peer) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.lastUsed = time.Now()
}

// Current returns the paths of the last connect.
func (p *Peer) Current() []*path.Path {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paths
}

// ComputesChecksums reports whether the first path that works computes the checksums of what it
// moves.
func (p *Peer) ComputesChecksums() bool {
	for _, w := range p.Current() {
		if !w.Dead.Load() {
			return w.Extras.Checksums
		}
	}
	return false
}

// Close closes the peer's paths.
func (p *Peer) Close(ctx context.Context) {
	p.mu.Lock()
	paths := p.paths
	p.paths, p.fresh = nil, false
	p.mu.Unlock()
	for _, w := range paths {
		w.Close(ctx)
	}
}

// Obtain returns the paths, or the connect to wait for. It does not block.
func (p *Peer) Obtain() (Route, *Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usable() {
		p.repair()
		return Route{Paths: p.paths, Gen: p.gen, Epoch: p.epoch}, nil, nil
	}
	a, err := p.start(false)
	return Route{}, a, err
}

// Ask asks the directory anew for a group that misses something in the paths of gen, which stay in
// use. It returns no attempt where they were renewed meanwhile.
func (p *Peer) Ask(gen uint64) (*Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen != gen {
		return nil, nil
	}
	return p.start(true)
}

// repair reconnects in the background, at intervals, while a transport that both sides have is not
// in use; requests use the others meanwhile. The caller holds p.mu.
func (p *Peer) repair() {
	broken := p.lacks || slices.ContainsFunc(p.paths, func(w *path.Path) bool { return w.Dead.Load() })
	if broken && time.Since(p.tried) >= p.env.Cfg.MaxRailPause {
		_, _ = p.start(true) // A closed engine needs none.
	}
}

// sync fetches the descriptor of the peer anew and waits for it.
func (p *Peer) sync(ctx context.Context) error {
	p.mu.Lock()
	earlier := p.pending
	p.mu.Unlock()
	if earlier != nil { // It may have asked before the caller had a reason to.
		if err := earlier.wait(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
	p.mu.Lock()
	a, err := p.start(true)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return a.wait(ctx)
}

// start returns the connect in progress, or begins one. The caller holds p.mu.
func (p *Peer) start(refresh bool) (*Attempt, error) {
	if p.pending != nil {
		return p.pending, nil
	}
	a := &Attempt{began: time.Now(), Done: make(chan struct{}), refresh: refresh}
	p.pending = a
	if !p.env.Life.Spawn(func() { p.connect(a) }) {
		p.pending = nil
		return nil, errs.Wrap(errs.TransferFail, "transfer", lifetime.ErrClosed)
	}
	return a, nil
}
