package quic

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	quicgo "github.com/quic-go/quic-go"
)

// serverConn serves one accepted connection: a goroutine for the connection and one for each
// stream, of which the peer may open a bounded number.
type serverConn struct {
	n        *node
	quic     *quicgo.Conn
	peer     peerID
	subject  transport.Subject // of the identity that the peer has proved
	name     string            // of the subject, for the log
	requests sync.WaitGroup
	lastUsed atomic.Int64 // unix nanoseconds
	busy     atomic.Int64 // requests in flight
	moved    atomic.Int64 // bytes that its streams read and wrote

	mu      sync.Mutex
	begun   map[*serving]struct{} // requests that are carried out
	leaving bool                  // no more are begun
	idle    chan struct{}         // exists once leaving; closed when begun is empty
}

func newServerConn(n *node, q *quicgo.Conn, id peerID) *serverConn {
	c := &serverConn{n: n, quic: q, peer: id, begun: map[*serving]struct{}{}}
	c.lastUsed.Store(time.Now().UnixNano())
	return c
}

// run serves the connection until it ends.
func (c *serverConn) run() {
	defer c.n.serving.Done()
	defer c.n.leave(c)
	c.take()
	c.requests.Wait()
}

// take takes the streams of the connection until it ends, or there was no work for twice the idle
// timeout: the side that dialled leaves first.
func (c *serverConn) take() {
	idle := 2 * c.n.cfg.IdleTimeout
	for {
		ctx, cancel := context.WithTimeout(context.Background(), idle)
		st, err := c.quic.AcceptStream(ctx)
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			c.busy.Add(1)
			s := &serving{c: c, st: st}
			c.requests.Go(s.run)
		case c.quic.Context().Err() != nil:
			return
		case !late:
			_ = c.quic.CloseWithError(code(wire.ReasonBadFrame), err.Error())
			return
		case c.busy.Load() == 0 && time.Since(time.Unix(0, c.lastUsed.Load())) >= idle:
			_ = c.quic.CloseWithError(code(wire.ReasonIdle), wire.ReasonIdle.Info().Label)
			return
		}
	}
}

// begin notes a request that is to be carried out; false once the node stops.
func (c *serverConn) begin(s *serving) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return false
	}
	c.begun[s] = struct{}{}
	return true
}

// end is called for what begin was told, when nothing touches memory for it any more.
func (c *serverConn) end(s *serving) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, s)
	if c.leaving && len(c.begun) == 0 {
		close(c.idle)
	}
}

// The bounds of a pause that gives the peer time to hear what was said.
const (
	leastLinger = 25 * time.Millisecond
	mostLinger  = 500 * time.Millisecond
)

// drain ends the connection because the node stops. Requests that were begun are finished, until
// hurry is closed; those that come now are refused. When the peer hears that the connection is
// closed for ReasonStopping, none of its requests is in progress or will be begun.
func (c *serverConn) drain(hurry <-chan struct{}) {
	c.mu.Lock()
	c.leaving, c.idle = true, make(chan struct{})
	if len(c.begun) == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-hurry:
		c.mu.Lock()
		for s := range c.begun {
			s.cut(wire.ReasonStopping)
		}
		c.mu.Unlock()
		<-c.idle
	}
	c.linger(hurry) // Closing drops answers that have not left yet.
	_ = c.quic.CloseWithError(code(wire.ReasonStopping), wire.ReasonStopping.Info().Label)
	c.linger(hurry) // As long as there is a socket, a peer that goes on sending is told again.
}

// linger pauses for a few round trips.
func (c *serverConn) linger(hurry <-chan struct{}) {
	pause := time.NewTimer(max(min(3*c.quic.ConnectionStats().SmoothedRTT, mostLinger), c.n.linger))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-hurry:
	}
}

const (
	// maxHandshakes bounds the connections in the middle of their handshake. From crowdedFrom on, a
	// peer that begins one must prove its address first.
	maxHandshakes = 512
	crowdedFrom   = 32
)

// peerID is what connections are counted by: nodes often share a certificate, processes an address.
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

// handshakeEnded ends the accounting of the handshake of a connection, once. The caller holds n.mu.
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
	var id peerID
	if shown := q.ConnectionState().TLS.PeerCertificates; len(shown) > 0 { // None with security.mode tls.
		id.cert = sha256.Sum256(shown[0].Raw)
	}
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
	c.subject, c.name = n.trust.Subject(q.ConnectionState().TLS)
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
