package shm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// listen opens an abstract socket under a name that nobody used before: a later start never
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

// admit begins a session, unless the peer may not have one.
func (n *node) admit(c conn) {
	user, err := c.peerUser()
	s := &session{n: n, conn: c, foreign: foreign(user), grants: map[uint64]*region{}}
	why := reasonNone
	if err != nil || s.foreign && n.cfg.Access != AccessAny {
		why = reasonUser
	}
	n.mu.Lock()
	switch {
	case why != reasonNone:
	case !n.life.Running():
		why = reasonStopping
	case len(n.sessions) >= n.cfg.MaxConnections:
		why = reasonBusy
	default:
		n.sessions[s] = false
		n.serving.Add(1)
		n.stats.connsIn.Add(1)
	}
	n.mu.Unlock()
	if why != reasonNone {
		n.stats.refuse(why)
		s.tell(message{Type: msgGoAway, Reason: why}) // The socket is empty; it takes the message at once.
		_ = c.Close()
		return
	}
	go s.serve()
}

// greeted notes that a peer said hello. False: the transport is stopping.
func (n *node) greeted(s *session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.life.Running() {
		return false
	}
	n.sessions[s] = true
	return true
}

// leave ends a session.
func (n *node) leave(s *session) {
	_ = s.conn.Close()
	n.mu.Lock()
	delete(n.sessions, s)
	n.mu.Unlock()
	n.stats.connsIn.Add(-1)
	n.serving.Done()
}
