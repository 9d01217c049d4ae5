package rdma

import (
	"hash/fnv"
	"net"
	"slices"
	"strconv"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Join implements transport.Upstream.
func (n *node) Join(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.name = name
}

// label is the name of this node in the names of connections.
func (n *node) label() string {
	if n.cfg.ServerName != "" {
		return n.cfg.ServerName
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.name != "" {
		return n.name
	}
	return n.addrs[0]
}

// Segment implements transport.Upstream. Devices that are not up are left out, of the
// keys too.
func (n *node) Segment() transport.Segment {
	s := transport.Segment{Protocol: "rdma", ServerName: n.cfg.ServerName}
	n.mu.Lock()
	devices := n.devices
	if !n.life.Running() {
		devices = nil
	}
	n.mu.Unlock()
	regions := n.regions.list()
	// One that fails at this moment may be missing in a region already.
	devices = slices.DeleteFunc(slices.Clone(devices), func(d *device) bool {
		return !d.up.Load() || slices.ContainsFunc(regions, func(r *region) bool { return r.mrs[d.index] == nil })
	})
	for _, d := range devices {
		at := d.here()
		s.Devices = append(s.Devices, transport.Device{Name: d.name, LID: at.lid, GID: at.text})
	}
	for _, r := range regions {
		if r.access == transport.AccessLocal || len(devices) == 0 {
			continue
		}
		for i := range uint64(len(r.mrs[devices[0].index])) {
			mr := r.mrs[devices[0].index][i]
			b := transport.Buffer{Name: r.location, Addr: mr.Addr(), Length: mr.Len()}
			if b.Name == "" {
				b.Name = "*"
			}
			for _, d := range devices {
				b.RKeys = append(b.RKeys, r.mrs[d.index][i].RKey())
				b.LKeys = append(b.LKeys, r.mrs[d.index][i].LKey())
			}
			s.Buffers = append(s.Buffers, b)
		}
	}
	return s
}

// Translate implements transport.Upstream.
func (n *node) Translate(peer transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	const op = "transport/rdma: translate descriptor"
	refuse := func(format string, args ...any) (transport.Endpoint, []transport.Key, error) {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, op, format, args...)
	}
	switch {
	case peer.Protocol != "rdma":
		return refuse("its protocol is %q, not rdma", peer.Protocol)
	case peer.Host == "" || peer.Port == 0:
		return refuse("nobody knows where the handshake daemon of %q listens", peer.Name)
	case peer.Name == "":
		return refuse("it has no name")
	}
	e := blob.Endpoint{Server: peer.Name, Addrs: []string{net.JoinHostPort(peer.Host, strconv.Itoa(peer.Port))}}
	if peer.ServerName != "" {
		e.Server = peer.ServerName
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(e.Server + "\x00" + e.Addrs[0])) // It never fails.
	for _, d := range peer.Devices {
		g, err := gid.Parse(d.GID)
		if err != nil {
			return refuse("device %q: %v", d.Name, err)
		}
		_, _ = sum.Write([]byte("\x00" + d.Name + "\x00" + d.GID + strconv.FormatUint(uint64(d.LID), 10)))
		e.Devices = append(e.Devices, blob.Device{Name: d.Name, GID: g, LID: d.LID, NUMA: -1, Usable: true, Up: true})
	}
	e.Incarnation = max(sum.Sum64(), 1)
	text, err := e.Encode()
	if err != nil {
		return refuse("%v", err)
	}
	out := make([]transport.Key, len(peer.Buffers))
	for i, b := range peer.Buffers {
		k := blob.Key{
			Incarnation: e.Incarnation, Region: b.Addr, Base: b.Addr, Length: b.Length, Chunk: b.Length,
			Access: transport.AccessRemote, Devices: len(e.Devices), RKeys: b.RKeys,
		}
		if key, err := k.Encode(); err == nil && b.Addr != 0 { // Else it is not open to peers.
			out[i] = key
		}
	}
	return transport.Endpoint{Blob: text, Incarnation: e.Incarnation}, out, nil
}
