package quic

import (
	"maps"
	"slices"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// openConn is an open connection of either direction.
type openConn struct {
	quic *quicgo.Conn
	own  *connection // of this side, nil where the peer dialled
}

func (c openConn) dialled() bool { return c.own != nil }

// connections lists the open connections of both directions.
func (n *node) connections() []openConn {
	n.mu.Lock()
	var out []openConn
	for c := range n.conns {
		out = append(out, openConn{quic: c.quic})
	}
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	for _, p := range paths {
		p.mu.Lock()
		for _, l := range p.conns {
			if l.up {
				out = append(out, openConn{quic: l.quic, own: l})
			}
		}
		p.mu.Unlock()
	}
	return out
}

// tellGrant logs a peer whose operation was refused for its grant, at most once a minute for each peer.
func (c *serverConn) tellGrant(why wire.Reason) {
	if more, tell := c.n.refused.Tell(c.name, time.Now()); tell {
		c.n.log.Warn("an operation of a peer was refused: the master did not allow it",
			"peer", c.quic.RemoteAddr().String(), "more_since_last_line", more, "identity", c.name, "reason", why.Info().Label)
	}
}

// watch looks at the files until stop, and at the peers of all connections.
func (n *node) watch(stop <-chan struct{}) {
	defer n.serving.Done()
	tick := time.NewTicker(n.cfg.ReloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			n.revise(n.trust.Look())
		}
	}
}

// revise closes the connections whose peers would not be let in any more: those whose certificate
// has ended, and, where the authorities changed, all that they do not cover. Connections of this side are left before,
// and for its own new certificate, so that no request fails.
func (n *node) revise(changed bool) {
	id, now := n.trust.Now(), n.clock()
	if id.Insecure() {
		return
	}
	for _, c := range n.connections() {
		state := c.quic.ConnectionState().TLS
		if len(state.PeerCertificates) == 0 {
			continue
		}
		leaf := state.PeerCertificates[0]
		ended, refused := now.After(leaf.NotAfter), changed && id.Verify(state, c.dialled(), now) != nil
		if !ended && c.dialled() && (refused || !now.Before(c.own.leaveAt) || !id.Leaf.Equal(c.own.shown)) {
			c.own.leave()
			continue
		}
		if !ended && !refused {
			continue
		}
		n.stats.untrusted.Add(1)
		n.log.Warn("closing a connection whose peer is not trusted any more", "peer", c.quic.RemoteAddr().String(), "names", security.NamesOf(leaf), "ends", leaf.NotAfter)
		_ = c.quic.CloseWithError(code(wire.ReasonTrust), wire.ReasonTrust.Info().Label)
	}
}
