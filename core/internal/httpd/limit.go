package httpd

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
)

// patience is how long a connection may wait for its client before it may be closed in favour of
// a new one.
const patience = 100 * time.Millisecond

// limit returns a listener with at most n open connections. A further connection replaces the one
// that has waited longest for its client, so that slow clients, however many, do not keep others
// out. If none has waited for patience, the new connection waits. Connections of other protocols
// are reported to strangers and closed.
func limit(ln net.Listener, n int, strangers *foreign.Log) *limitListener {
	return &limitListener{Listener: ln, strangers: strangers, slots: make(chan struct{}, n), closed: make(chan struct{}), open: map[*limitConn]struct{}{}}
}

type limitListener struct {
	net.Listener
	strangers *foreign.Log

	slots  chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[*limitConn]struct{}
}

// Accept waits for a connection, then for a slot.
func (l *limitListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case l.slots <- struct{}{}:
			return l.admit(conn), nil
		default:
		}
		if l.shed() {
			continue
		}
		select {
		case l.slots <- struct{}{}:
			return l.admit(conn), nil
		case <-l.closed:
			conn.Close()
			return nil, net.ErrClosed
		case <-time.After(patience):
		}
	}
}

func (l *limitListener) admit(conn net.Conn) *limitConn {
	c := &limitConn{Conn: conn, strangers: l.strangers}
	c.wait()
	c.free = sync.OnceFunc(func() {
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
		<-l.slots
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c
}

// shed closes the connection that has waited longest for its client, if one has waited for
// patience.
func (l *limitListener) shed() bool {
	var victim *limitConn
	least := time.Now().Add(-patience).UnixNano()
	l.mu.Lock()
	for c := range l.open {
		if since := c.since.Load(); since != 0 && since <= least {
			victim, least = c, since
		}
	}
	l.mu.Unlock()
	if victim == nil {
		return false
	}
	victim.Close()
	return true
}

// Close ends Accept.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// limitConn records since when it waits for its client: for a request's head or body, or for the
// client to take the answer.
type limitConn struct {
	net.Conn
	free  func()
	since atomic.Int64 // nanoseconds since 1970, 0 while a handler works

	strangers *foreign.Log
	known     atomic.Bool // its protocol was checked
}

// NetConn returns the connection below.
func (c *limitConn) NetConn() net.Conn { return c.Conn }

func (c *limitConn) wait() { c.since.Store(time.Now().UnixNano()) }
func (c *limitConn) busy() { c.since.Store(0) }

// Read checks the first bytes, and ends the connection of a client that speaks another protocol.
func (c *limitConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 || c.known.Swap(true) {
		return n, err
	}
	switch p := foreign.FromClient(b[:n]); p {
	case foreign.CoroRPC, foreign.CoroRDMA, foreign.Lean, foreign.TLS:
		c.strangers.Report(c.RemoteAddr(), p, b[:n])
		return 0, io.EOF
	}
	return n, err
}

// Write counts as waiting for the client, since it blocks while the client's buffers are full.
func (c *limitConn) Write(b []byte) (int, error) {
	before := c.since.Swap(time.Now().UnixNano())
	defer c.since.Store(before)
	return c.Conn.Write(b)
}

// Close closes the connection and frees its slot.
func (c *limitConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// waitingBody is a body whose bytes the client has yet to send.
type waitingBody struct {
	io.ReadCloser
	conn *limitConn
}

func (b waitingBody) Read(p []byte) (int, error) {
	b.conn.wait()
	defer b.conn.busy()
	return b.ReadCloser.Read(p)
}
