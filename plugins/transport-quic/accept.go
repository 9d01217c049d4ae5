package quic

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	quicgo "github.com/quic-go/quic-go"
)

const (
	// maxHandshakes bounds the connections in the middle of their handshake. From crowdedFrom on, a
	// peer that begins one must prove its address first.
	maxHandshakes = 512
	crowdedFrom   = 32
)

// peerID is what connections are counted by: nodes often share a certificate, processes
// an address.
type peerID struct {
	addr netip.Addr
	cert wire.Fingerprint
}

var errCrowded = errors.New("too many connections")

type handshakeKey struct{}

// beginHandshake is called for each connection that begins. The context that it returns tells
// welcome that the handshake was counted.
func (n *node) beginHandshake(ctx context.Context, _ *quicgo.ClientInfo) (context.Context, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Stopping() || n.handshakes >= maxHandshakes || len(n.conns) >= n.cfg.MaxConnections {
		n.stats.overflow.Add(1)
		return ctx, errCrowded
	}
	n.handshakes++
	waiting := new(bool)
	*waiting = true
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.handshakeEnded(waiting)
	})
	return context.WithValue(ctx, handshakeKey{}, waiting), nil
}

// handshakeEnded ends the accounting of the handshake of a connection, once. n.mu is held.
func (n *node) handshakeEnded(waiting *bool) {
	if *waiting {
		*waiting = false
		n.handshakes--
	}
}

func (n *node) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.handshakes >= crowdedFrom
}

// accept lets connections in whose handshake has ended, until the listener is closed.
func (n *node) accept(ln *quicgo.Listener) {
	defer n.serving.Done()
	for {
		q, err := ln.Accept(context.Background())
		if err != nil {
			return // The listener was closed, or the socket is gone for good.
		}
		c, why := n.welcome(q)
		if why != wire.ReasonNone {
			n.stats.refuse(why)
			n.serving.Go(func() { _ = q.CloseWithError(code(why), why.Info().Label) })
			continue
		}
		go c.run()
	}
}

// welcome counts a connection, or gives the reason to refuse it.
func (n *node) welcome(q *quicgo.Conn) (*serverConn, wire.Reason) {
	id := peerID{cert: sha256.Sum256(q.ConnectionState().TLS.PeerCertificates[0].Raw)}
	if a, ok := q.RemoteAddr().(*net.UDPAddr); ok {
		id.addr = a.AddrPort().Addr()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if waiting, ok := q.Context().Value(handshakeKey{}).(*bool); ok {
		n.handshakeEnded(waiting)
	}
	switch {
	case !n.life.Running():
		return nil, wire.ReasonStopping
	case len(n.conns) >= n.cfg.MaxConnections || n.perPeer[id] >= n.cfg.MaxConnectionsPerPeer:
		n.stats.overflow.Add(1)
		return nil, wire.ReasonBusy
	}
	c := newServerConn(n, q, id)
	n.conns[c] = struct{}{}
	n.perPeer[id]++
	n.serving.Add(1)
	n.stats.Accepted.Add(1)
	return c, wire.ReasonNone
}

// leave ends the accounting of a connection.
func (n *node) leave(c *serverConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	if n.perPeer[c.peer]--; n.perPeer[c.peer] <= 0 {
		delete(n.perPeer, c.peer)
	}
}
