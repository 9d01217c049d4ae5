package shm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// drainPause is how long a connection that is refused rests between messages that it discards.
const drainPause = time.Millisecond

// connection is one accepted connection. Its goroutine reads; others send.
type serverConn struct {
	n       *node
	conn    wire.Conn
	foreign bool

	// send is held for one message, and from a grant until it is sent, so that a revoke comes after
	// it.
	send   sync.Mutex
	grants map[uint64]*region // by handle; the reader's alone
}

// serve works until the peer is gone. The peer keeps its regions until then.
func (s *serverConn) serve() {
	defer s.n.leave(s)
	if why := s.greet(); why != wire.ReasonNone {
		s.n.stats.refuse(why)
		s.tell(wire.Message{Type: wire.MsgGoAway, Reason: why})
		return
	}
	s.n.stats.Accepted.Add(1)
	for {
		m, fd, err := s.conn.Receive()
		wire.CloseFD(fd)
		var bad wire.ErrMessage
		switch {
		case err == nil && s.handle(&m):
		case err == nil, errors.As(err, &bad):
			s.n.stats.refuse(wire.ReasonProtocol)
			s.tell(wire.Message{Type: wire.MsgGoAway, Reason: wire.ReasonProtocol})
			_ = s.conn.CloseWrite() // The peer sees the end, and we can still see its.
			s.drain()
			return
		default:
			s.over(err)
			return
		}
	}
}

// greet takes the hello.
func (s *serverConn) greet() wire.Reason {
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Duration(s.n.cfg.HandshakeTimeout))) // It fails on a closed connection only.
	m, fd, err := s.conn.Receive()
	wire.CloseFD(fd)
	var version wire.ErrVersion
	switch {
	case errors.As(err, &version):
		return wire.ReasonVersion
	case err != nil || m.Type != wire.MsgHello:
		return wire.ReasonProtocol
	case m.Number != s.n.self.Incarnation || m.Token != s.n.self.Secret:
		return wire.ReasonStale
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	if !s.n.greeted(s) {
		return wire.ReasonStopping
	}
	s.tell(wire.Message{Type: wire.MsgWelcome, Number: m.Number})
	return wire.ReasonNone
}

// tell sends a message; where that is not possible the reader sees the end soon.
func (s *serverConn) tell(m wire.Message) {
	s.send.Lock()
	defer s.send.Unlock()
	_ = s.conn.Send(m, -1) // See above.
}

// handle does what a message asks. False: it makes no sense.
func (s *serverConn) handle(m *wire.Message) bool {
	switch m.Type {
	case wire.MsgAttach:
		return s.attach(m)
	case wire.MsgDetached:
		r := s.grants[m.Handle]
		if r == nil {
			return false
		}
		delete(s.grants, m.Handle)
		r.ungrant(s)
		return true
	default:
		return false
	}
}

// attach gives the peer a region.
func (s *serverConn) attach(m *wire.Message) bool {
	if s.grants[m.Handle] != nil {
		return false
	}
	r, why := s.n.regions.find(m)
	s.send.Lock()
	defer s.send.Unlock()
	fd := -1
	if why == wire.ReasonNone {
		if why = r.grant(s, m.Handle); why == wire.ReasonProtocol {
			return false
		}
	}
	if why == wire.ReasonNone {
		if fd, why = r.share(s.foreign); why != wire.ReasonNone {
			r.ungrant(s)
		}
	}
	if why != wire.ReasonNone {
		s.n.stats.refuse(why)
		return s.conn.Send(wire.Message{Type: wire.MsgDenied, Reason: why, Handle: m.Handle}, -1) == nil
	}
	defer wire.CloseFD(fd)
	s.grants[m.Handle] = r
	s.n.stats.granted.Add(1)
	return s.conn.Send(wire.Message{Type: wire.MsgAttached, Handle: m.Handle, Number: r.object.offset, Length: r.Size(), Access: r.Access()}, fd) == nil
}

// drain waits for the end of a peer that is not listened to any more.
func (s *serverConn) drain() {
	for {
		_, fd, err := s.conn.Receive()
		wire.CloseFD(fd)
		var bad wire.ErrMessage
		if err != nil && !errors.As(err, &bad) {
			s.over(err)
			return
		}
		time.Sleep(drainPause)
	}
}

// over takes back what the peer had, if the end of the connection proves that it does not touch it
// any more.
func (s *serverConn) over(err error) {
	if !wire.Ended(err) {
		return // Stop closed our end, and says so.
	}
	for _, r := range s.grants {
		r.ungrant(s)
	}
}

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
