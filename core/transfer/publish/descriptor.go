package publish

import (
	"encoding/json"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Descriptor is what peers need to reach the memory that is open to them: upstream's segment
// descriptor, whose protocol is that of the first transport that speaks one of upstream's, and the
// side key of the nodes of this project.
func (p *Publisher) Descriptor() *metadata.Descriptor {
	p.carriers.Join()
	d := &metadata.Descriptor{
		Name:            p.dir.LocalName(),
		Life:            p.id,
		TCPProtoVersion: 1,
		Timestamp:       metadata.Timestamp(time.Now()),
	}
	open := p.regions.Open()
	for i := range p.carriers.List {
		c := &p.carriers.List[i]
		p.regions.RenewKeys(i, open)
		if u, ok := c.Upstream(); ok {
			p.describe(d, u.Segment())
		}
		ep := c.Transport.Endpoint()
		te := metadata.TransportEndpoint{Name: c.Name, Blob: ep.Blob, Incarnation: ep.Incarnation}
		for _, r := range open {
			if key := r.KeyOn(i); key != nil {
				te.Regions = append(te.Regions, metadata.RegionKey{Addr: r.Addr, Length: uint64(len(r.Mem)), Key: key, Location: r.Location})
			}
		}
		d.Transports = append(d.Transports, te)
	}
	if d.Protocol == "" { // No transport speaks with nodes of upstream; they only see the memory.
		d.Protocol = "tcp"
		for _, r := range open {
			d.Buffers = append(d.Buffers, metadata.Buffer{Name: d.Name, Addr: r.Addr, Length: uint64(len(r.Mem))})
		}
	}
	return d
}

// describe adds the segment of one transport.
func (p *Publisher) describe(d *metadata.Descriptor, s transport.Segment) {
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
		d.Matrix = p.ranking(s)
	}
}

// ranking is the topology over exactly the devices that are published: upstream's nodes require the
// two sets to be equal.
func (p *Publisher) ranking(s transport.Segment) json.RawMessage {
	m := p.topology
	if s.Matrix != nil {
		if own, err := matrix.Parse(s.Matrix); err == nil {
			m = own
		} else {
			p.log.Warn("the topology that a transport reports is left out", "protocol", s.Protocol, "error", err)
		}
	}
	names := make([]string, 0, len(s.Devices))
	for _, v := range s.Devices {
		names = append(names, v.Name)
	}
	if m.Empty() { // Nothing is known about the memory: all devices are equally good.
		if any, err := matrix.New(map[string]matrix.Entry{matrix.Wildcard: {Preferred: names}}); err == nil {
			m = any
		}
	}
	raw, err := json.Marshal(m.Only(names))
	if err != nil {
		p.log.Warn("the topology is left out", "error", err)
		return nil
	}
	return raw
}
