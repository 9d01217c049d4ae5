package tcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// upProtocol is the protocol of a segment descriptor that this transport serves.
const upProtocol = "tcp"

// Join implements transport.Upstream.
func (n *node) Join(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.segment = name
}

// Segment implements transport.Upstream. Where upstream peers are refused it names no port
// and no buffers.
func (n *node) Segment() transport.Segment {
	n.mu.Lock()
	ln, name, running := n.listener, n.segment, n.life.Running()
	n.mu.Unlock()
	s := transport.Segment{Protocol: upProtocol, DataVersion: 1}
	if !running || !n.cfg.Upstream {
		return s
	}
	if at, ok := ln.Addr().(*net.TCPAddr); ok {
		s.DataPort, s.DataVersion = at.Port, 2
	}
	s.Buffers = n.buffers(name)
	return s
}

// Translate implements transport.Upstream.
func (n *node) Translate(peer transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	const op = "transport/tcp: upstream peer"
	if !n.cfg.Upstream {
		return transport.Endpoint{}, nil, errs.WithHint(errs.New(errs.NotSupported, op, "%q speaks upstream's protocol, which is switched off", peer.Name),
			"set upstream: true in the configuration of transport/tcp")
	}
	if peer.Protocol != upProtocol {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, op, "%q publishes protocol %q, not tcp", peer.Name, peer.Protocol)
	}
	if peer.DataPort < 1 || peer.DataPort > math.MaxUint16 {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, op, "%q publishes data port %d, so there is no way to reach it", peer.Name, peer.DataPort)
	}
	addr := net.JoinHostPort(cmp.Or(peer.DataHost, peer.Host), strconv.Itoa(peer.DataPort))
	if err := transportkit.CheckAddress(addr); err != nil {
		return transport.Endpoint{}, nil, errs.Wrap(errs.InvalidParams, op, fmt.Errorf("%q is at %q: %w", peer.Name, addr, err))
	}
	version := uint8(1)
	if peer.DataVersion >= 2 && n.cfg.UpstreamProto != 1 {
		version = 2
	}
	e := frame.Endpoint{Incarnation: upIncarnation(peer, addr), Addrs: []string{addr}, Upstream: version}
	keys := make([]transport.Key, len(peer.Buffers))
	for i, b := range peer.Buffers {
		if b.Addr == 0 || b.Length == 0 || b.Addr > math.MaxUint64-b.Length {
			continue
		}
		k := frame.Key{Incarnation: e.Incarnation, Region: b.Addr, Length: b.Length, Access: transport.AccessRemote, Upstream: true}
		keys[i] = k.Encode()
	}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}, keys, nil
}

// upIncarnation stands for what upstream does not have: it follows from where the node is.
// A node that comes back elsewhere has another; one that comes back at the same place does
// not, and then only the check of addresses tells the two apart. Buffers do not count: they
// come and go while the node runs.
func upIncarnation(peer transport.PeerSegment, addr string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", peer.Name, addr, peer.Port, peer.DataVersion))
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// Accept implements transport.Upstream. Connections over TCP need no handshake.
func (n *node) Accept(context.Context, []byte) ([]byte, error) {
	return nil, errs.Wrap(errs.NotSupported, "transport/tcp: set up a connection", errors.New("tcp needs no handshake; the peer took this node for one of RDMA"))
}
