package shm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// listen opens an abstract socket under a name that was never used before: a later start never
// answers at the place of an earlier one.
func listen(ctx context.Context) (*net.UnixListener, string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, "", errs.Wrap(errs.Internal, "transport/shm: start", err)
	}
	name := "@mooncake-shm-" + hex.EncodeToString(random[:])
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unixpacket", name)
	if err != nil {
		return nil, "", errs.Wrap(errs.NotSupported, "transport/shm: listen on an abstract socket", err)
	}
	return ln.(*net.UnixListener), name, nil
}

// admit begins a connection, unless the peer may not have one.
func (n *node) admit(c wire.Conn) {
	user, err := c.PeerUser()
	s := &serverConn{n: n, conn: c, foreign: wire.Foreign(user), grants: map[uint64]*region{}}
	why := wire.ReasonNone
	if err != nil || s.foreign && n.cfg.Access != AccessAny {
		why = wire.ReasonUser
	}
	n.mu.Lock()
	switch {
	case why != wire.ReasonNone:
	case !n.life.Running():
		why = wire.ReasonStopping
	case len(n.conns) >= n.cfg.MaxConnections:
		why = wire.ReasonBusy
	default:
		n.conns[s] = false
		n.serving.Add(1)
		n.stats.connsIn.Add(1)
	}
	n.mu.Unlock()
	if why != wire.ReasonNone {
		n.stats.refuse(why)
		s.tell(wire.Message{Type: wire.MsgGoAway, Reason: why}) // The socket is empty; it takes the message at once.
		_ = c.Close()
		return
	}
	go s.serve()
}

// greeted notes that a peer said hello. False: the transport is stopping.
func (n *node) greeted(s *serverConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.life.Running() {
		return false
	}
	n.conns[s] = true
	return true
}

// leave ends a connection.
func (n *node) leave(s *serverConn) {
	_ = s.conn.Close()
	n.mu.Lock()
	delete(n.conns, s)
	n.mu.Unlock()
	n.stats.connsIn.Add(-1)
	n.serving.Done()
}
