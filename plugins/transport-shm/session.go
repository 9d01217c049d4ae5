package shm

import (
	"errors"
	"sync"
	"time"
)

// drainPause is how long a session that is refused rests between messages that nobody reads.
const drainPause = time.Millisecond

// session is one accepted connection. Its goroutine reads; others send.
type session struct {
	n       *node
	conn    conn
	foreign bool

	// send is held for one message, and from a grant until it is sent, so that a revoke comes
	// after it.
	send   sync.Mutex
	grants map[uint64]*region // by handle; the reader's alone
}

// serve works until the peer is gone. What it was given stays given until then.
func (s *session) serve() {
	defer s.n.leave(s)
	if why := s.greet(); why != reasonNone {
		s.n.stats.refuse(why)
		s.tell(message{Type: msgGoAway, Reason: why})
		return
	}
	s.n.stats.accepted.Add(1)
	for {
		m, fd, err := s.conn.recv()
		closeFD(fd)
		var bad errMessage
		switch {
		case err == nil && s.handle(&m):
		case err == nil, errors.As(err, &bad):
			s.n.stats.refuse(reasonProtocol)
			s.tell(message{Type: msgGoAway, Reason: reasonProtocol})
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
func (s *session) greet() reason {
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Duration(s.n.cfg.HandshakeTimeout))) // It fails on a closed connection only.
	m, fd, err := s.conn.recv()
	closeFD(fd)
	var version errVersion
	switch {
	case errors.As(err, &version):
		return reasonVersion
	case err != nil || m.Type != msgHello:
		return reasonProtocol
	case m.Number != s.n.self.Incarnation || m.Token != s.n.self.Secret:
		return reasonStale
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	if !s.n.greeted(s) {
		return reasonStopping
	}
	s.tell(message{Type: msgWelcome, Number: m.Number})
	return reasonNone
}

// tell sends a message; where that is not possible the reader sees the end soon.
func (s *session) tell(m message) {
	s.send.Lock()
	defer s.send.Unlock()
	_ = s.conn.send(m, -1) // See above.
}

// handle does what a message asks. False: it makes no sense.
func (s *session) handle(m *message) bool {
	switch m.Type {
	case msgAttach:
		return s.attach(m)
	case msgDetached:
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
func (s *session) attach(m *message) bool {
	if s.grants[m.Handle] != nil {
		return false
	}
	r, why := s.n.regions.find(m)
	s.send.Lock()
	defer s.send.Unlock()
	fd := -1
	if why == reasonNone {
		if why = r.grant(s, m.Handle); why == reasonProtocol {
			return false
		}
	}
	if why == reasonNone {
		if fd, why = r.share(s.foreign); why != reasonNone {
			r.ungrant(s)
		}
	}
	if why != reasonNone {
		s.n.stats.refuse(why)
		return s.conn.send(message{Type: msgDenied, Reason: why, Handle: m.Handle}, -1) == nil
	}
	defer closeFD(fd)
	s.grants[m.Handle] = r
	s.n.stats.granted.Add(1)
	return s.conn.send(message{Type: msgAttached, Handle: m.Handle, Number: r.object.offset, Length: uint64(len(r.mem)), Access: r.access}, fd) == nil
}

// drain waits for the end of a peer that is not listened to any more.
func (s *session) drain() {
	for {
		_, fd, err := s.conn.recv()
		closeFD(fd)
		var bad errMessage
		if err != nil && !errors.As(err, &bad) {
			s.over(err)
			return
		}
		time.Sleep(drainPause)
	}
}

// over takes back what the peer had, if the end of the connection proves that it does not
// touch it any more.
func (s *session) over(err error) {
	if !ended(err) {
		return // Stop closed our end, and says so.
	}
	for _, r := range s.grants {
		r.ungrant(s)
	}
}
