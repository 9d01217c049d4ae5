package tcp

import (
	"net"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

const (
	// maxGreeting bounds the accepted connections that have not said hello yet.
	// An initiator of upstream opens one for each request of a batch, all at once.
	maxGreeting = 1024
)

// admit makes a server connection, or closes conn and returns nil where too many are open
// or the node is stopping.
func (n *node) admit(conn net.Conn) *serverConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.life.Running() || n.greeting >= maxGreeting {
		n.stats.overflow.Add(1)
		_ = conn.Close()
		return nil
	}
	c := newServerConn(n, n.wrap(busypoll.Adopt(conn, n.cfg.BusyPoll)))
	n.conns[c] = struct{}{}
	n.greeting++
	n.serving.Add(1)
	return c
}

// welcome counts a connection that said hello, or gives the reason to refuse it.
func (n *node) welcome(c *serverConn, h *frame.Hello) frame.Reason {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.life.Running():
		return frame.ReasonStopping
	case h.Incarnation != n.incarnation:
		return frame.ReasonStale
	case h.Low > frame.Version || h.High < frame.Version:
		return frame.ReasonVersion
	case len(n.conns)-n.greeting >= n.cfg.MaxConnections || n.perPeer[h.Session] >= n.cfg.MaxConnectionsPerPeer:
		return frame.ReasonBusy
	}
	n.greeting--
	n.perPeer[h.Session]++
	c.peer, c.welcomed = h.Session, true
	n.stats.accepted.Add(1)
	n.stats.connsIn.Add(1)
	return frame.ReasonNone
}

// welcomeUpstream is welcome for a connection that began with a request of upstream.
func (n *node) welcomeUpstream(c *serverConn) frame.Reason {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.life.Running():
		return frame.ReasonStopping
	case len(n.conns)-n.greeting >= n.cfg.MaxConnections || n.upstreamIn >= n.cfg.MaxUpstreamConnections:
		return frame.ReasonBusy
	}
	n.greeting--
	n.upstreamIn++
	c.upstream, c.welcomed = true, true
	n.stats.acceptedUpstream.Add(1)
	n.stats.connsIn.Add(1)
	return frame.ReasonNone
}

// leave ends the accounting of a connection.
func (n *node) leave(c *serverConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	if !c.welcomed {
		n.greeting--
		return
	}
	n.stats.connsIn.Add(-1)
	if c.upstream {
		n.upstreamIn--
		return
	}
	if n.perPeer[c.peer]--; n.perPeer[c.peer] <= 0 {
		delete(n.perPeer, c.peer)
	}
}
