package transfer

import (
	"encoding/json"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// join tells the transports the name of this process, once.
func (e *Engine) join() {
	e.joined.Do(func() {
		for i := range e.carriers {
			if u, ok := e.carriers[i].upstream(); ok {
				u.Join(e.dir.LocalName())
			}
		}
	})
}

func (c *Carrier) upstream() (transport.Upstream, bool) {
	return transport.As[transport.Upstream](c.Transport)
}

// Descriptor is what peers need to reach the memory that is open to them: upstream's
// segment descriptor, of which the first transport that knows it decides the protocol, and
// the side key of our own nodes.
func (e *Engine) Descriptor() *metadata.Descriptor {
	e.join()
	d := &metadata.Descriptor{
		Name:            e.dir.LocalName(),
		Life:            e.id,
		TCPProtoVersion: 1,
		Timestamp:       metadata.Timestamp(time.Now()),
	}
	var open []*region
	for _, r := range e.regions.all() {
		if r.access&transport.AccessRemote != 0 && r.ready.Load() {
			open = append(open, r)
		}
	}
	for i := range e.carriers {
		c := &e.carriers[i]
		e.renewKeys(i, open)
		if u, ok := c.upstream(); ok {
			e.describe(d, u.Segment())
		}
		ep := c.Transport.Endpoint()
		te := metadata.TransportEndpoint{Name: c.Name, Blob: ep.Blob, Incarnation: ep.Incarnation}
		for _, r := range open {
			if key := r.keys[i].get(); key != nil {
				te.Regions = append(te.Regions, metadata.RegionKey{Addr: r.addr, Length: uint64(len(r.mem)), Key: key, Location: r.location})
			}
		}
		d.Transports = append(d.Transports, te)
	}
	if d.Protocol == "" { // No transport speaks with nodes of upstream; they see what there is.
		d.Protocol = "tcp"
		for _, r := range open {
			d.Buffers = append(d.Buffers, metadata.Buffer{Name: d.Name, Addr: r.addr, Length: uint64(len(r.mem))})
		}
	}
	return d
}

// describe adds what one transport says.
func (e *Engine) describe(d *metadata.Descriptor, s transport.Segment) {
	if s.DataPort != 0 && d.TCPDataPort == 0 {
		d.TCPDataPort, d.TCPProtoVersion = s.DataPort, s.DataVersion
	}
	if d.Protocol != "" {
		return
	}
	d.Protocol, d.RDMAServerName = s.Protocol, s.ServerName
	for _, v := range s.Devices {
		d.Devices = append(d.Devices, metadata.Device{Name: v.Name, LID: v.LID, GID: v.GID})
	}
	for _, b := range s.Buffers {
		name := b.Name
		switch {
		case s.Protocol == "tcp":
			name = d.Name
		case name == "":
			name = matrix.Wildcard
		}
		d.Buffers = append(d.Buffers, metadata.Buffer{Name: name, Addr: b.Addr, Length: b.Length, RKeys: b.RKeys, LKeys: b.LKeys})
	}
	if len(s.Devices) > 0 {
		d.Matrix = e.published(s)
	}
}

// published is the topology over exactly the devices that are published: upstream's nodes
// count on the two sets being equal.
func (e *Engine) published(s transport.Segment) json.RawMessage {
	m := e.topology
	if s.Matrix != nil {
		if own, err := matrix.Parse(s.Matrix); err == nil {
			m = own
		} else {
			e.log.Warn("the topology that a transport reports is left out", "protocol", s.Protocol, "error", err)
		}
	}
	names := make([]string, 0, len(s.Devices))
	for _, v := range s.Devices {
		names = append(names, v.Name)
	}
	if m.Empty() { // Memory of which nothing is known: all devices are as good.
		if any, err := matrix.New(map[string]matrix.Entry{matrix.Wildcard: {Preferred: names}}); err == nil {
			m = any
		}
	}
	raw, err := json.Marshal(m.Only(names))
	if err != nil {
		e.log.Warn("the topology is left out", "error", err)
		return nil
	}
	return raw
}

// ranking is the topology that a peer published; empty where it is none.
func ranking(raw json.RawMessage) matrix.Matrix {
	m, err := matrix.Parse(raw)
	if err != nil { // It only costs speed.
		return matrix.Matrix{}
	}
	return m
}
