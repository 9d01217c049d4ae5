package rdma

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
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
	running := n.life.Running()
	n.mu.Unlock()
	if !running {
		return s
	}
	regions := n.regions.List()
	// One that fails at this moment may be missing in a region already.
	devices := slices.DeleteFunc(slices.Clone(n.devices), func(d *adapter) bool {
		return !d.Up.Load() || slices.ContainsFunc(regions, func(r *memory.Region) bool { return r.MRs[d.Index] == nil })
	})
	for _, d := range devices {
		at := d.Address()
		s.Devices = append(s.Devices, transport.Device{Name: d.Name, LID: at.LID, GID: at.Text})
	}
	for _, r := range regions {
		if r.Access == transport.AccessLocal || len(devices) == 0 {
			continue
		}
		for i := range uint64(len(r.MRs[devices[0].Index])) {
			mr := r.MRs[devices[0].Index][i]
			b := transport.Buffer{Name: r.Location, Addr: mr.Addr(), Length: mr.Len()}
			if b.Name == "" {
				b.Name = "*"
			}
			for _, d := range devices {
				b.RKeys = append(b.RKeys, r.MRs[d.Index][i].RKey())
				b.LKeys = append(b.LKeys, r.MRs[d.Index][i].LKey())
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
		return refuse("the address of the handshake daemon of %q is not known", peer.Name)
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

// Accept implements transport.Upstream.
func (n *node) Accept(_ context.Context, request []byte) ([]byte, error) {
	const op = "transport/rdma: accept"
	if err := n.begin(op); err != nil {
		return nil, err
	}
	defer n.env.Traffic.Done()
	m, err := handshake.Decode(request)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	answer, err := n.answer(m)
	if err != nil {
		n.env.Refused.Add(1)
		n.env.Log.Warn("refused a node of upstream", "peer", m.LocalPath, "error", err)
		answer = &handshake.Message{LocalPath: m.PeerPath, PeerPath: m.LocalPath, Reply: err.Error()}
	}
	return answer.Encode()
}

func (n *node) answer(m *handshake.Message) (*handshake.Message, error) {
	server, name, ok := handshake.SplitNICPath(m.PeerPath)
	from, theirs, ok2 := handshake.SplitNICPath(m.LocalPath)
	d := n.deviceNamed(name)
	switch {
	case !n.cfg.Upstream:
		return nil, errors.New("this node does not talk to nodes of another implementation")
	case !ok || !ok2 || len(theirs) > blob.MaxName:
		return nil, fmt.Errorf("%q and %q are not names of devices", m.LocalPath, m.PeerPath)
	case server != n.label():
		return nil, fmt.Errorf("this node is %q, not %q", n.label(), server)
	case d == nil || !d.Up.Load():
		return nil, fmt.Errorf("device %q cannot be used now", name)
	}
	g, err := gid.Parse(m.GID)
	if err != nil && m.GID != "" {
		return nil, err
	}
	r := n.rails.Get(rail.Key{Local: d.Index, Peer: rail.UpstreamPeer(m.LocalPath)}, d.out,
		blob.Device{Name: theirs, GID: g, LID: m.LID, Usable: true, Up: true}, &blob.Endpoint{Server: from}, from)
	defer r.Release()
	if m.Ready != nil && *m.Ready {
		r.Confirm(m)
		return &handshake.Message{}, nil
	}
	c, err := r.Accept(m)
	if err != nil {
		return nil, err
	}
	var second *bool
	if m.Ready != nil {
		second = new(bool)
	}
	return c.Message(m.PeerPath, m.LocalPath, second), nil
}
