package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRegions bounds the ranges of one peer that are imported on one path.
const maxRegions = 1 << 14

// connect looks the peer up and opens what is missing. It runs once at a time per peer.
func (p *peer) connect(a *attempt) {
	ctx, cancel := context.WithTimeout(p.e.ctx, p.e.cfg.ConnectTimeout)
	defer cancel()
	p.mu.Lock()
	old := p.links
	p.mu.Unlock()
	links, restarted, err := p.open(ctx, old)
	if err != nil {
		err = errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+p.name, err)
		p.failed(err)
	}

	p.mu.Lock()
	if err == nil {
		p.links, p.fresh, p.asked = links, true, time.Now()
		p.gen++
		if restarted {
			p.epoch++
		}
	}
	p.pending = nil
	a.err = err
	close(a.done)
	p.mu.Unlock()
	if p.e.ctx.Err() != nil { // The engine closed what it saw; this it may not have seen.
		p.close(ctx)
	}
	if err == nil {
		for _, l := range old {
			if !slices.Contains(links, l) {
				l.close(ctx)
			}
		}
	}
}

// open returns a link for every transport that both sides have, reusing those of old that
// still lead to the same incarnation.
func (p *peer) open(ctx context.Context, old []*link) (links []*link, restarted bool, err error) {
	d, err := p.e.dir.Lookup(ctx, p.name)
	if err != nil {
		return nil, false, errs.Wrap(errs.TransferFail, "look up in the metadata service", err)
	}
	var failed error
	for i := range p.e.carriers {
		c := &p.e.carriers[i]
		t := slices.IndexFunc(d.Transports, func(t metadata.TransportEndpoint) bool { return t.Name == c.Name })
		if t < 0 {
			continue
		}
		te := &d.Transports[t]
		var l *link
		for _, o := range old {
			if o.carrier != c {
				continue
			}
			if o.endpoint.Incarnation != te.Incarnation {
				restarted = true
			} else if bytes.Equal(o.endpoint.Blob, te.Blob) && !o.dead.Load() {
				l = o
			}
		}
		isNew := l == nil
		if isNew {
			if l, err = p.dial(ctx, c, te); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		if err := l.imports(ctx, te.Regions); err != nil {
			failed = errors.Join(failed, err)
			if isNew {
				l.close(ctx)
				continue
			}
		}
		links = append(links, l)
	}
	switch {
	case len(links) > 0:
		return links, restarted, nil
	case failed != nil:
		return nil, restarted, errs.Wrap(errs.TransferFail, "", failed)
	}
	return nil, restarted, errs.WithHint(errs.New(errs.TransferFail, "", "it offers no transport that this process has"),
		"enable a common transport on both sides")
}

func (p *peer) dial(ctx context.Context, c *Carrier, te *metadata.TransportEndpoint) (*link, error) {
	ep := transport.Endpoint{Blob: te.Blob, Incarnation: te.Incarnation}
	path, err := c.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err)
	}
	l := &link{
		carrier: c, endpoint: ep, path: path, window: semaphore.NewWeighted(p.e.cfg.Window),
		space: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.remotes.Store(new([]remote))
	if !p.e.spawn(func() { l.reap(p.e) }) {
		_ = path.Close(ctx) // The engine is closing; nothing was submitted.
		return nil, ErrClosed
	}
	return l, nil
}

// imports makes the peer's ranges usable, and forgets those it no longer has. A range that
// cannot be imported is left out; when none can, that is an error.
func (l *link) imports(ctx context.Context, keys []metadata.RegionKey) error {
	known := *l.remotes.Load()
	next := make([]remote, 0, len(keys))
	var failed error
	for _, k := range keys[:min(len(keys), maxRegions)] {
		if k.Length == 0 || k.Addr+k.Length < k.Addr {
			failed = errors.Join(failed, errs.New(errs.InvalidParams, "", "a range of %d bytes at %#x is not possible", k.Length, k.Addr))
			continue
		}
		r := remote{addr: k.Addr, length: k.Length, key: string(k.Key)}
		if i := slices.IndexFunc(known, func(o remote) bool { return o.key == r.key && o.addr == r.addr && o.length == r.length }); i >= 0 {
			next = append(next, known[i])
			continue
		}
		id, err := l.path.Import(ctx, k.Key)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		r.id = id
		next = append(next, r)
	}
	slices.SortFunc(next, func(a, b remote) int { return cmp.Compare(a.addr, b.addr) })
	end := uint64(0)
	next = slices.DeleteFunc(next, func(r remote) bool { // Of overlapping ranges, the first counts.
		overlaps := r.addr < end
		if !overlaps {
			end = r.addr + r.length
		}
		return overlaps
	})
	l.remotes.Store(&next)
	if len(next) == 0 && failed != nil {
		return errs.Wrap(errs.TransferFail, "transport/"+l.carrier.Name+": import", failed)
	}
	return nil
}
