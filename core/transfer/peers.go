package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// peer returns the peer of a name, to be given back with release.
func (e *Engine) peer(name string) (*peer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[name]
	if p == nil {
		if len(e.peers) >= e.cfg.MaxPeers && !e.dropIdle() {
			return nil, errs.New(errs.TransferFail, "transfer: connect to "+name, "%d peers are in use, the bound", len(e.peers))
		}
		p = &peer{name: name, e: e}
		e.peers[name] = p
	}
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
	return p, nil
}

func (e *Engine) release(p *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.lastUsed = time.Now()
}

// dropIdle closes the longest unused peer. The caller holds e.mu.
func (e *Engine) dropIdle() bool {
	var oldest *peer
	var since time.Time
	for _, p := range e.peers {
		p.mu.Lock()
		idle := p.users == 0 && p.pending == nil
		if idle && (oldest == nil || p.lastUsed.Before(since)) {
			oldest, since = p, p.lastUsed
		}
		p.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	if !e.spawn(func() {
		ctx, cancel := context.WithTimeout(e.ctx, e.cfg.ConnectTimeout)
		defer cancel()
		oldest.close(ctx)
	}) {
		return false // Close takes care of it.
	}
	delete(e.peers, oldest.name)
	return true
}

// Revive ends the time for which a peer that failed is left alone, for a caller that has
// heard that it is back. The next request to it asks the directory anew.
func (e *Engine) Revive(name string) {
	e.mu.Lock()
	p := e.peers[name]
	e.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails, p.cause, p.fresh = 0, nil, false
	}
}
