package peer

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Obtain returns the paths, or the connect to wait for. It does not block.
func (p *Peer) Obtain() (Route, *Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usable() {
		p.mend()
		return Route{Paths: p.paths, Gen: p.gen, Epoch: p.epoch}, nil, nil
	}
	a, err := p.start(false)
	return Route{}, a, err
}

// Ask asks the directory anew for a group that misses something in the paths of gen, which
// stay in use. It returns no attempt where they were renewed meanwhile.
func (p *Peer) Ask(gen uint64) (*Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen != gen {
		return nil, nil
	}
	return p.start(true)
}

// mend reconnects in the background, at intervals, while a transport that both sides have is
// not in use; requests use the others meanwhile. The caller holds p.mu.
func (p *Peer) mend() {
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
