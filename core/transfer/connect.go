package transfer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// connect looks the peer up and opens what is missing. It runs once at a time per peer.
func (p *peer) connect(a *attempt) {
	ctx, cancel := context.WithTimeout(p.env.life.connecting, p.env.cfg.ConnectTimeout)
	defer cancel()
	p.env.connecting()
	p.mu.Lock()
	old, was := p.paths, p.life
	p.mu.Unlock()
	paths, lacks, restarted, life, err := p.open(ctx, old)
	// Another incarnation in the same life is a transport that was started again.
	restarted = restarted && (life == 0 || life != was)
	if err != nil {
		err = errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+p.name, err)
		if !a.refresh {
			p.failed(err)
		}
	}

	p.mu.Lock()
	if err == nil {
		p.paths, p.fresh, p.asked, p.lacks, p.life = paths, true, a.began, lacks, life
		p.gen++
		if restarted {
			p.epoch++
		}
	}
	p.pending, p.tried = nil, time.Now()
	a.err = err
	close(a.done)
	p.mu.Unlock()
	if p.env.life.connecting.Err() != nil { // The engine closed what it saw; this it may not have seen.
		p.close(ctx)
	}
	if err == nil {
		for _, w := range old {
			switch {
			case slices.Contains(paths, w):
			case restarted || !p.env.life.spawn(w.linger):
				w.close(ctx)
			}
		}
	}
}

// open returns a path for every transport that both sides have, reusing those of old that
// still lead to the same incarnation. lacks: there is none for some of them.
func (p *peer) open(ctx context.Context, old []*peerPath) (paths []*peerPath, lacks, restarted bool, life uint64, err error) {
	d, err := p.env.dir.Lookup(ctx, p.name)
	if err != nil {
		return nil, false, false, 0, errs.Wrap(errs.TransferFail, "look up in the metadata service", err)
	}
	there := topologyOf(d.Matrix)
	offers, failed := p.env.offers(ctx, p.name, d)
	for _, o := range offers {
		w, again := reused(old, o)
		restarted = restarted || again
		w, err := p.pathTo(ctx, w, o, there)
		failed = errors.Join(failed, err)
		if w != nil {
			paths = append(paths, w)
		}
	}
	switch {
	case len(paths) > 0:
		if failed != nil {
			p.env.log.Warn("a part of a peer, or a way to it, is out of reach", "peer", p.name, "error", failed)
		}
		return paths, len(paths) < len(offers), restarted, d.Life, nil
	case failed != nil:
		return nil, true, restarted, d.Life, errs.Wrap(errs.TransferFail, "", failed)
	}
	return nil, true, restarted, d.Life, errs.WithHint(errs.New(errs.TransferFail, "", "it offers no transport that this process has"),
		"enable a common transport on both sides")
}

// pathTo returns the path of an offer: the old one, or a new one where there is none or it
// holds as many keys as a path may. The error may come with a path, which does for a part
// of the peer's memory then.
func (p *peer) pathTo(ctx context.Context, old *peerPath, o offer, there matrix.Matrix) (*peerPath, error) {
	if old != nil {
		old.rails.setTopology(there)
		old.rails.refresh()
		if full, err := old.imports(ctx, o.regions); !full {
			return old, err
		}
	}
	w, err := dialPath(ctx, p.env.pathEnv, o.carrier, o.index, p.name, o.endpoint)
	if err != nil {
		return old, err
	}
	w.rails.setTopology(there)
	_, err = w.imports(ctx, o.regions)
	if err != nil && len(*w.remotes.Load()) == 0 {
		w.close(ctx)
		return old, err
	}
	return w, err
}

// reused returns the old path that an offer leads to as well, and whether the peer
// restarted since.
func reused(old []*peerPath, o offer) (w *peerPath, restarted bool) {
	for _, have := range old {
		switch {
		case have.carrier != o.carrier:
		case have.endpoint.Incarnation != o.endpoint.Incarnation:
			restarted = true
		case bytes.Equal(have.endpoint.Blob, o.endpoint.Blob) && !have.dead.Load():
			w = have
		}
	}
	return w, restarted
}
