package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// connect looks the peer up and opens what is missing. It runs once at a time per peer.
func (p *Peer) connect(a *Attempt) {
	ctx, cancel := context.WithTimeout(p.env.Life.Connecting, p.env.Cfg.ConnectTimeout)
	defer cancel()
	p.env.Connecting()
	p.mu.Lock()
	old, was := p.paths, p.generation
	p.mu.Unlock()
	paths, lacks, restarted, generation, err := p.open(ctx, old)
	// Another incarnation in the same generation is a transport that was restarted.
	restarted = restarted && (generation == 0 || generation != was)
	if err != nil {
		err = errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+p.Name, err)
		if !a.refresh {
			p.Failed(err)
		}
	}

	p.mu.Lock()
	if err == nil {
		p.paths, p.fresh, p.asked, p.lacks, p.generation = paths, true, a.began, lacks, generation
		p.gen++
		if restarted {
			p.epoch++
		}
	}
	p.pending, p.tried = nil, time.Now()
	a.Err = err
	close(a.Done)
	p.mu.Unlock()
	if p.env.Life.Connecting.Err() != nil { // The engine closed the paths that it knew; it may not have known these.
		p.Close(ctx)
	}
	if err == nil {
		for _, w := range old {
			switch {
			case slices.Contains(paths, w):
			case restarted || !p.env.Life.Spawn(w.Linger):
				w.Close(ctx)
			}
		}
	}
}

// open returns a path for every transport that both sides have, reusing those of old that still
// lead to the same incarnation. With lacks, there is none for some of them.
func (p *Peer) open(ctx context.Context, old []*path.Path) (paths []*path.Path, lacks, restarted bool, generation uint64, err error) {
	d, err := p.env.Dir.Lookup(ctx, p.Name)
	if err != nil {
		return nil, false, false, 0, errs.Wrap(errs.TransferFail, "look up in the metadata service", err)
	}
	there := topologyOf(d.Matrix)
	offers, failed := p.env.offers(ctx, p.Name, d)
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
			p.env.Log.Warn("some of a peer's memory, or a path to it, is out of reach", "peer", p.Name, "error", failed)
		}
		return paths, len(paths) < len(offers), restarted, d.Life, nil
	case failed != nil:
		return nil, true, restarted, d.Life, errs.Wrap(errs.TransferFail, "", failed)
	}
	return nil, true, restarted, d.Life, errs.WithHint(errs.New(errs.TransferFail, "", "it offers no transport that this process has"),
		"enable a common transport on both sides")
}

// pathTo returns the path of an offer: the old one, or a new one where there is none or it holds as
// many keys as a path may. The error may come with a path, which then reaches some of the peer's
// memory.
func (p *Peer) pathTo(ctx context.Context, old *path.Path, o offer, there matrix.Matrix) (*path.Path, error) {
	if old != nil {
		old.Rails.SetTopology(there)
		old.Rails.Refresh()
		if full, err := old.Imports(ctx, o.regions); !full {
			return old, err
		}
	}
	w, err := path.Dial(ctx, p.env.Env, o.carrier, o.index, p.Name, o.endpoint)
	if err != nil {
		return old, err
	}
	w.Rails.SetTopology(there)
	_, err = w.Imports(ctx, o.regions)
	if err != nil && len(*w.Remotes.Load()) == 0 {
		w.Close(ctx)
		return old, err
	}
	return w, err
}

// reused returns the old path that an offer leads to as well, and whether the peer restarted since.
func reused(old []*path.Path, o offer) (w *path.Path, restarted bool) {
	for _, have := range old {
		switch {
		case have.Carrier != o.carrier:
		case have.Endpoint.Incarnation != o.endpoint.Incarnation:
			restarted = true
		case bytes.Equal(have.Endpoint.Blob, o.endpoint.Blob) && !have.Dead.Load():
			w = have
		}
	}
	return w, restarted
}

// offer is a way to a peer: a local transport, the endpoint to dial, and the regions to import.
type offer struct {
	carrier  *carrier.Carrier
	index    int // of the carrier
	endpoint transport.Endpoint
	regions  []metadata.RegionKey
}

// offers lists the ways to a peer, best first: those of this project's protocol where both sides
// have it, else those of upstream's. The error says why others cannot be used.
func (e *Env) offers(ctx context.Context, name string, d *metadata.Descriptor) ([]offer, error) {
	var out []offer
	for i := range e.Carriers.List {
		c := &e.Carriers.List[i]
		t := slices.IndexFunc(d.Transports, func(t metadata.TransportEndpoint) bool { return t.Name == c.Name })
		if t >= 0 {
			te := &d.Transports[t]
			out = append(out, offer{c, i, transport.Endpoint{Blob: te.Blob, Incarnation: te.Incarnation}, te.Regions})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	e.Carriers.Join()
	var failed error
	var at *metadata.Address
	for i := range e.Carriers.List {
		c := &e.Carriers.List[i]
		u, ok := c.Upstream()
		if !ok {
			continue
		}
		view, ok := d.For(u.Segment().Protocol)
		if !ok {
			continue
		}
		if at == nil {
			a := e.address(ctx, name)
			at = &a
		}
		o, err := translate(u, name, *at, view)
		if err != nil {
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
			continue
		}
		o.carrier, o.index = c, i
		out = append(out, o)
	}
	return out, failed
}

// address is where the handshake daemon of a node listens; without a port where that is not known.
func (e *Env) address(ctx context.Context, name string) metadata.Address {
	if p, ok := e.Dir.(metadata.Peers); ok {
		a, err := p.Address(ctx, name)
		if err == nil {
			return a
		}
		e.Log.Warn("the handshake daemon of a node is not known", "peer", name, "error", err)
	}
	host, _, err := metadata.ParseName(name)
	if err != nil {
		return metadata.Address{}
	}
	return metadata.Address{Host: host}
}

func translate(u transport.Upstream, name string, at metadata.Address, d *metadata.Descriptor) (offer, error) {
	s := transport.PeerSegment{Name: name, Host: at.Host, Port: at.Port, Segment: transport.Segment{
		Protocol: d.Protocol, DataHost: d.TCPDataHost, DataPort: d.TCPDataPort, DataVersion: d.TCPProtoVersion, ServerName: d.RDMAServerName, Matrix: d.Matrix,
	}}
	for _, v := range d.Devices {
		s.Devices = append(s.Devices, transport.Device{Name: v.Name, LID: v.LID, GID: v.GID})
	}
	for _, b := range d.Buffers {
		s.Buffers = append(s.Buffers, transport.Buffer{Name: b.Name, Addr: b.Addr, Length: b.Length, RKeys: b.RKeys, LKeys: b.LKeys})
	}
	ep, keys, err := u.Translate(s)
	if err != nil {
		return offer{}, err
	}
	if len(keys) != len(s.Buffers) {
		return offer{}, errs.New(errs.Internal, "translate the descriptor of "+name, "%d keys for %d buffers", len(keys), len(s.Buffers))
	}
	o := offer{endpoint: ep}
	for i, k := range keys {
		if k == nil {
			continue
		}
		r := metadata.RegionKey{Addr: s.Buffers[i].Addr, Length: s.Buffers[i].Length, Key: k}
		if len(d.Devices) > 0 {
			r.Location = s.Buffers[i].Name
		}
		o.regions = append(o.regions, r)
	}
	return o, nil
}

// topologyOf is the topology that a peer published; empty where it is none.
func topologyOf(raw json.RawMessage) matrix.Matrix {
	m, err := matrix.Parse(raw)
	if err != nil { // It only costs speed.
		return matrix.Matrix{}
	}
	return m
}
