package peer

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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

// address is where the handshake daemon of a node listens; without a port where that is
// not known.
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
