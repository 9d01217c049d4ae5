package transfer

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// syncWidth bounds the descriptors that are fetched at once.
const syncWidth = 16

// Sync fetches the descriptor of a peer anew, of every known peer for "". Transfers go on
// with what is there meanwhile. The error joins those of all peers.
func (e *Engine) Sync(ctx context.Context, name string) error {
	if name == e.dir.LocalName() {
		return nil
	}
	if name == "" {
		return e.refresh(ctx)
	}
	p, err := e.peer(name)
	if err != nil {
		return err
	}
	defer e.release(p)
	return p.sync(ctx)
}

// refresh syncs every known peer.
func (e *Engine) refresh(ctx context.Context) error {
	var failed error
	var started []*attempt
	finish := func() {
		for _, a := range started {
			if err := a.wait(ctx); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		started = started[:0]
	}
	for _, p := range e.known() {
		a, err := e.renewal(p)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if started = append(started, a); len(started) == syncWidth {
			finish()
		}
	}
	finish()
	return failed
}

// renewal begins to fetch the descriptor of a peer; nil for one that gave way meanwhile,
// whose paths nobody would close.
func (e *Engine) renewal(p *peer) (*attempt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.peers[p.name] != p {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(true)
}

func (p *peer) sync(ctx context.Context) error {
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

// wait returns the result of a connect.
func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, "transfer: fetch a descriptor", ctx.Err())
	}
}

// keepFresh syncs at intervals.
func (e *Engine) keepFresh() {
	for e.sleep(e.cfg.RefreshInterval) {
		if err := e.refresh(e.ctx); err != nil && e.ctx.Err() == nil {
			e.log.Warn("descriptors of peers were not refreshed", "error", err)
		}
	}
}
