package transfer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// connect looks the peer up and opens what is missing. It runs once at a time per peer.
func (p *peer) connect(a *attempt) {
	ctx, cancel := context.WithTimeout(p.e.ctx, p.e.cfg.ConnectTimeout)
	defer cancel()
	p.e.watch()
	p.mu.Lock()
	old, was := p.links, p.life
	p.mu.Unlock()
	links, lacks, restarted, life, err := p.open(ctx, old)
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
		p.links, p.fresh, p.asked, p.lacks, p.life = links, true, a.began, lacks, life
		p.gen++
		if restarted {
			p.epoch++
		}
	}
	p.pending, p.tried = nil, time.Now()
	a.err = err
	close(a.done)
	p.mu.Unlock()
	if p.e.ctx.Err() != nil { // The engine closed what it saw; this it may not have seen.
		p.close(ctx)
	}
	if err == nil {
		for _, l := range old {
			switch {
			case slices.Contains(links, l):
			case restarted || !p.e.spawn(func() { l.linger(p.e) }):
				l.close(ctx)
			}
		}
	}
}

// open returns a link for every transport that both sides have, reusing those of old that
// still lead to the same incarnation. lacks: there is none for some of them.
func (p *peer) open(ctx context.Context, old []*link) (links []*link, lacks, restarted bool, life uint64, err error) {
	d, err := p.e.dir.Lookup(ctx, p.name)
	if err != nil {
		return nil, false, false, 0, errs.Wrap(errs.TransferFail, "look up in the metadata service", err)
	}
	there := ranking(d.Matrix)
	offers, failed := p.e.offers(ctx, p.name, d)
	for _, o := range offers {
		l, again := reused(old, o)
		restarted = restarted || again
		l, err := p.linkTo(ctx, l, o, there)
		failed = errors.Join(failed, err)
		if l != nil {
			links = append(links, l)
		}
	}
	switch {
	case len(links) > 0:
		if failed != nil {
			p.e.log.Warn("a part of a peer, or a way to it, is out of reach", "peer", p.name, "error", failed)
		}
		return links, len(links) < len(offers), restarted, d.Life, nil
	case failed != nil:
		return nil, true, restarted, d.Life, errs.Wrap(errs.TransferFail, "", failed)
	}
	return nil, true, restarted, d.Life, errs.WithHint(errs.New(errs.TransferFail, "", "it offers no transport that this process has"),
		"enable a common transport on both sides")
}

// linkTo returns the link of an offer: the old one, or a new one where there is none or it
// holds as many keys as a path may. The error may come with a link, which does for a part
// of the peer's memory then.
func (p *peer) linkTo(ctx context.Context, old *link, o offer, there matrix.Matrix) (*link, error) {
	if old != nil {
		old.rails.setThere(there)
		old.rails.refresh()
		if full, err := old.imports(ctx, o.regions); !full {
			return old, err
		}
	}
	l, err := p.dial(ctx, o.carrier, o.endpoint)
	if err != nil {
		return old, err
	}
	l.rails.setThere(there)
	_, err = l.imports(ctx, o.regions)
	if err != nil && len(*l.remotes.Load()) == 0 {
		l.close(ctx)
		return old, err
	}
	return l, err
}

// reused returns the old link that an offer leads to as well, and whether the peer
// restarted since.
func reused(old []*link, o offer) (l *link, restarted bool) {
	for _, have := range old {
		switch {
		case have.carrier != o.carrier:
		case have.endpoint.Incarnation != o.endpoint.Incarnation:
			restarted = true
		case bytes.Equal(have.endpoint.Blob, o.endpoint.Blob) && !have.dead.Load():
			l = have
		}
	}
	return l, restarted
}

func (p *peer) dial(ctx context.Context, c *Carrier, ep transport.Endpoint) (*link, error) {
	path, err := c.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err)
	}
	l := &link{
		carrier: c, index: slices.IndexFunc(p.e.carriers, func(o Carrier) bool { return o.Name == c.Name }), endpoint: ep, path: path, window: semaphore.NewWeighted(p.e.cfg.Window),
		rails: newRails(&p.e.cfg, path, p.e.topology, p.e.log.With("peer", p.name, "transport", c.Name)),
		space: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.sums, _ = transport.As[transport.Summing](path)
	l.attending, _ = transport.As[transport.Attending](path)
	l.remotes.Store(new([]remote))
	// Not transport.As: what wraps a path may do something to its completions.
	if d, ok := path.(transport.Delivering); ok {
		d.Deliver(func(c transport.Completion) bool { return l.deliver(p.e, c) })
	}
	if !p.e.spawn(func() { l.reap(p.e) }) {
		_ = path.Close(ctx) // The engine is closing; nothing was submitted.
		return nil, ErrClosed
	}
	return l, nil
}
