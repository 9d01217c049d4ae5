package httpd

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a connection may wait for its client before it is given up for
// one that finds no room.
const patience = 100 * time.Millisecond

// limit returns a listener of which at most n connections are open. One more takes the
// place of the connection that has waited longest for its client, so that slow clients,
// however many, do not keep others out; while none has waited for long, it waits itself.
func limit(ln net.Listener, n int) *limitListener {
	return &limitListener{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{}), open: map[*limitConn]struct{}{}}
}

type limitListener struct {
	net.Listener
	slots  chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[*limitConn]struct{}
}

// Accept waits for a connection, then for room.
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
	c := &limitConn{Conn: conn}
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

// shed closes the connection that has waited longest for its client, if one has for long.
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

// limitConn knows since when it waits for its client: to send a head or a body, or to
// take an answer.
type limitConn struct {
	net.Conn
	free  func()
	since atomic.Int64 // nanoseconds since 1970, 0 while a handler works
}

func (c *limitConn) wait() { c.since.Store(time.Now().UnixNano()) }
func (c *limitConn) busy() { c.since.Store(0) }

// Write waits for the client when its buffers are full.
func (c *limitConn) Write(b []byte) (int, error) {
	before := c.since.Swap(time.Now().UnixNano())
	defer c.since.Store(before)
	return c.Conn.Write(b)
}

// Close frees the room.
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
