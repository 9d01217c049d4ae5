package quic

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"

	quicgo "github.com/quic-go/quic-go"
)

const (
	// mostKnocking bounds the connections in the middle of their handshake; from manyKnocking
	// on, who knocks must prove its address first.
	mostKnocking = 512
	manyKnocking = 32
)

// peerID is what connections are counted by: nodes often share a certificate, processes
// an address.
type peerID struct {
	addr netip.Addr
	cert fingerprint
}

var errCrowded = errors.New("too many connections")

type knockKey struct{}

// knock is called for each connection that begins. What it returns tells welcome and the
// end of the connection apart.
func (n *node) knock(ctx context.Context, _ *quicgo.ClientInfo) (context.Context, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Stopping() || n.knocking >= mostKnocking || len(n.conns) >= n.cfg.MaxConnections {
		n.stats.overflow.Add(1)
		return ctx, errCrowded
	}
	n.knocking++
	waiting := new(bool)
	*waiting = true
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answered(waiting)
	})
	return context.WithValue(ctx, knockKey{}, waiting), nil
}

// answered ends the knocking of a connection, once. n.mu is held.
func (n *node) answered(waiting *bool) {
	if *waiting {
		*waiting = false
		n.knocking--
	}
}

func (n *node) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.knocking >= manyKnocking
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
		if why != reasonNone {
			n.stats.refuse(why)
			n.serving.Go(func() { _ = q.CloseWithError(code(why), why.info().Label) })
			continue
		}
		go c.run()
	}
}

// welcome counts a connection, or gives the reason to refuse it.
func (n *node) welcome(q *quicgo.Conn) (*serverConn, reason) {
	id := peerID{cert: sha256.Sum256(q.ConnectionState().TLS.PeerCertificates[0].Raw)}
	if a, ok := q.RemoteAddr().(*net.UDPAddr); ok {
		id.addr = a.AddrPort().Addr()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if waiting, ok := q.Context().Value(knockKey{}).(*bool); ok {
		n.answered(waiting)
	}
	switch {
	case !n.life.Running():
		return nil, reasonStopping
	case len(n.conns) >= n.cfg.MaxConnections || n.perPeer[id] >= n.cfg.MaxConnectionsPerPeer:
		n.stats.overflow.Add(1)
		return nil, reasonBusy
	}
	c := newServerConn(n, q, id)
	n.conns[c] = struct{}{}
	n.perPeer[id]++
	n.serving.Add(1)
	n.stats.accepted.Add(1)
	return c, reasonNone
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
