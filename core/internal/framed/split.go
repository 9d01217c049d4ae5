package framed

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
)

// Split returns a listener with those connections of ln that speak HTTP/2; s serves those of the protocols
// that are registered. Both end when the returned listener is closed, which closes ln. A connection of
// another protocol is turned away at once: s.Foreign is told.
//
// Where there are too many connections (s.Conns), the one that has been idle for longest, of
// the host with the most, gives way to a new one: its client is told goodbye, or it is closed.
// At most 256 connections, a quarter of s.Conns where that is less, may be such that have not
// sent their beginning; the oldest gives way. s.ConnClosed is told of each.
func (s *Server) Split(ln net.Listener) net.Listener {
	sp := &splitter{
		Listener: ln, s: s, limiter: newConnLimiter(s.Conns, s.Awake, s.ConnClosed),
		rest: make(chan net.Conn), over: make(chan struct{}), sniffing: map[net.Conn]struct{}{},
	}
	go sp.accept()
	return sp
}

type splitter struct {
	net.Listener
	s       *Server
	limiter *connLimiter
	rest    chan net.Conn
	over    chan struct{} // closed by the end of accept
	err     error         // of accept, once over

	mu       sync.Mutex
	closed   bool
	sniffing map[net.Conn]struct{} // whose first bytes are awaited, or which are turned away
}

// patience is the pause after an Accept that failed for a reason that passes, such as the
// limit on open files.
const patience = 50 * time.Millisecond

func (sp *splitter) accept() {
	defer close(sp.over)
	for {
		conn, err := sp.Listener.Accept()
		if err != nil {
			if temporary(err) && !sp.isClosed() {
				if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
					sp.limiter.shed()
				}
				time.Sleep(patience)
				continue
			}
			sp.err = err
			return
		}
		if !sp.watch(conn) {
			continue
		}
		if g := sp.limiter.enter(conn); g != nil {
			go sp.sniff(conn, g)
		} else {
			sp.forget(conn)
		}
	}
}

// temporary reports an error of Accept after which the listener still works.
func temporary(err error) bool {
	t, ok := err.(interface{ Temporary() bool }) //nolint:errorlint // As net/http does it.
	return ok && t.Temporary()
}

func (sp *splitter) isClosed() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.closed
}

// watch notes a connection whose first bytes are awaited.
func (sp *splitter) watch(conn net.Conn) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.closed {
		_ = conn.Close()
		return false
	}
	sp.sniffing[conn] = struct{}{}
	return true
}

// sniff looks at the first bytes and hands the connection on.
func (sp *splitter) sniff(conn net.Conn, g *trackedConn) {
	handed := false // to a server that closes it
	defer func() {
		if !handed {
			g.left()
		}
	}()
	first, n, err := sp.begin(conn)
	protocol := foreign.FromClient(first[:n])
	_, served := sp.s.protocols[protocol]
	if n > 0 && !served && protocol != foreign.HTTP2 {
		defer sp.forget(conn)
		sp.turnAway(conn, protocol, first[:n])
		return
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if closed := sp.forget(conn); err != nil || closed {
		_ = conn.Close()
		return
	}
	BoundUnacknowledged(conn)
	if served {
		handed = true
		sp.s.serve(protocol, g, first[:])
		return
	}
	g.greeted(nil)
	select {
	case sp.rest <- &begun{Conn: conn, first: first[:], tracked: g}:
		handed = true
	case <-sp.over:
		_ = conn.Close()
	}
}

// silence is how long a client of upstream's may be silent after it has connected: it connects again
// to a master that was gone before it has a call.
const silence = 5 * time.Minute

// begin reads the first bytes.
func (sp *splitter) begin(conn net.Conn) (first [foreign.Least]byte, n int, err error) {
	stall := sp.s.Stall
	wait := stall
	if sp.s.protocols[foreign.CoroRPC] != nil {
		wait = max(wait, silence)
	}
	if err = conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return first, 0, err
	}
	n, err = conn.Read(first[:])
	if err != nil || n == len(first) {
		return first, n, err
	}
	if err = conn.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return first, n, err
	}
	more, err := io.ReadFull(conn, first[n:])
	return first, n + more, err
}

// forget ends the watch over a connection, and says whether the listener is closed.
func (sp *splitter) forget(conn net.Conn) (closed bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	delete(sp.sniffing, conn)
	return sp.closed
}

// turnAway closes a connection of another protocol, with the answer of s.Foreign.
func (sp *splitter) turnAway(conn net.Conn, p foreign.Protocol, first []byte) {
	first = foreign.Head(conn, first)
	var answer []byte
	if sp.s.Foreign != nil {
		answer = sp.s.Foreign(conn.RemoteAddr(), p, first)
	}
	foreign.TurnAway(conn, answer)
}

// Accept implements net.Listener.
func (sp *splitter) Accept() (net.Conn, error) {
	select {
	case conn := <-sp.rest:
		return conn, nil
	case <-sp.over:
		return nil, sp.err
	}
}

// Close implements net.Listener.
func (sp *splitter) Close() error {
	sp.mu.Lock()
	sp.closed = true
	for conn := range sp.sniffing {
		_ = conn.Close()
	}
	sp.mu.Unlock()
	err := sp.Listener.Close()
	<-sp.over
	return err
}

// begun is a connection whose first bytes were read.
type begun struct {
	net.Conn
	first   []byte
	tracked *trackedConn
}

// Close implements net.Conn.
func (b *begun) Close() error {
	defer b.tracked.left()
	return b.Conn.Close()
}

// NetConn returns the connection below.
func (b *begun) NetConn() net.Conn { return b.Conn }

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}
