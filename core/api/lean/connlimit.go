package lean

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// awake is how long a connection has to be idle to give way to one of a host that has as many. Tests
// change it.
var awake = 100 * time.Millisecond

const (
	// admitTimeout is how long a new connection waits at most for another to be idle for awake, jiffy
	// how exactly the system measures that.
	admitTimeout, jiffy = 200 * time.Millisecond, 10 * time.Millisecond
	// drainTimeout is how long a client that was asked to close it may take to close its connection.
	drainTimeout = 2 * time.Second
	// mostHalfOpen bounds the connections whose beginning is awaited, leastHalfOpen is the bound
	// where few connections may be open.
	mostHalfOpen, leastHalfOpen = 256, 8
)

// CloseReason is why a connection was closed to make room.
type CloseReason string

// The values of CloseReason.
const (
	ClosedIdle     CloseReason = "idle"      // it was idle for longest, among those of the host that had the most
	ClosedHalfOpen CloseReason = "half_open" // too many had not sent their beginning, and it waited for longest
	Refused        CloseReason = "refused"   // every other connection of its host was in use
)

// ConnClosed says what was done about too many connections.
type ConnClosed struct {
	Why CloseReason
	// Host is the address of the host whose connection was closed, invalid for one that has no
	// address. OfHost is how many connections the host has left.
	Host   netip.Addr
	OfHost int
	// Open is how many connections are left, Most how many there may be, 0 for any number.
	Open, Most int
	// Descriptors says that the process had no file descriptor left for a new connection.
	Descriptors bool
}

// connLimiter bounds the connections of a listener, in favour of the hosts that have few.
type connLimiter struct {
	most, half int
	tell       func(ConnClosed)

	mu       sync.Mutex
	open     int // connections that were not closed
	draining int // of those that were, whose clients were asked and may close the connection yet
	hosts    map[netip.Addr]map[*trackedConn]struct{}
	halfOpen *list.List // of *trackedConn, the oldest first
}

func newConnLimiter(most int, tell func(ConnClosed)) *connLimiter {
	half := mostHalfOpen
	if most > 0 {
		half = min(half, max(leastHalfOpen, most/4))
	}
	if tell == nil {
		tell = func(ConnClosed) {}
	}
	return &connLimiter{most: most, half: half, tell: tell, hosts: map[netip.Addr]map[*trackedConn]struct{}{}, halfOpen: list.New()}
}

// trackedConn is a connection of a limiter.
type trackedConn struct {
	limiter *connLimiter
	host    netip.Addr

	// With mu of the limiter:

	conn   net.Conn
	goAway func() // asks the client to close the connection, nil where it cannot be asked
	half   *list.Element
	gone   bool // it is not counted any more
	// draining says that it counts as one of limiter.draining.
	draining bool
}

// enter counts a connection, and makes room for it, for which it waits a moment where every other
// connection was in use just now. It returns nil for one that it has closed.
func (c *connLimiter) enter(conn net.Conn) *trackedConn {
	t := &trackedConn{limiter: c, conn: conn, host: hostOf(conn)}
	c.mu.Lock()
	if c.hosts[t.host] == nil {
		c.hosts[t.host] = map[*trackedConn]struct{}{}
	}
	c.hosts[t.host][t] = struct{}{}
	c.open++
	t.half = c.halfOpen.PushBack(t)
	var closing []func()
	if c.halfOpen.Len() > c.half {
		if oldest, ok := c.halfOpen.Front().Value.(*trackedConn); ok {
			closing = append(closing, c.close(oldest, ClosedHalfOpen, false))
		}
	}
	refused := false
	for waited := false; c.most > 0 && c.open > c.most; waited = true {
		v, idle := c.victim(t)
		if v != nil && (idle >= awake || len(c.hosts[v.host]) > len(c.hosts[t.host])) {
			closing = append(closing, c.close(v, ClosedIdle, false))
			break
		}
		if refused = waited || v == nil; refused {
			closing = append(closing, c.close(t, Refused, false))
			break
		}
		c.mu.Unlock()
		time.Sleep(min(awake-idle+jiffy, admitTimeout))
		c.mu.Lock()
	}
	c.mu.Unlock()
	for _, f := range closing {
		f()
	}
	if refused {
		return nil
	}
	return t
}

// shed closes a connection because the process has no file descriptors left.
func (c *connLimiter) shed() {
	c.mu.Lock()
	v, _ := c.victim(nil)
	if v == nil {
		c.mu.Unlock()
		c.tell(ConnClosed{Why: Refused, Most: c.most, Descriptors: true})
		return
	}
	closing := c.close(v, ClosedIdle, true)
	c.mu.Unlock()
	closing()
}

// victim returns the connection that is idle for longest, of the host with the most, and for how
// long. It is not t, and nil where there is no other. mu is held.
func (c *connLimiter) victim(t *trackedConn) (v *trackedConn, idle time.Duration) {
	most := 0
	for _, of := range c.hosts {
		most = max(most, len(of))
	}
	for _, of := range c.hosts {
		if len(of) < most {
			continue
		}
		for x := range of {
			if x == t {
				continue
			}
			if d := idleOf(x.conn); v == nil || d > idle {
				v, idle = x, d
			}
		}
	}
	return v, idle
}

// close stops counting a connection. What it returns, to be called without mu, ends the connection
// and tells of it. mu is held.
func (c *connLimiter) close(t *trackedConn, why CloseReason, descriptors bool) func() {
	c.forget(t)
	conn, goAway := t.conn, t.goAway
	if t.draining = goAway != nil && !descriptors && c.draining < c.half; t.draining {
		c.draining++
	}
	asked := t.draining
	told := ConnClosed{Why: why, Host: t.host, OfHost: len(c.hosts[t.host]), Open: c.open, Most: c.most, Descriptors: descriptors}
	return func() {
		if asked {
			goAway()
			time.AfterFunc(drainTimeout, func() { _ = conn.Close() })
		} else {
			_ = conn.Close()
		}
		c.tell(told)
	}
}

// forget stops counting a connection. mu is held.
func (c *connLimiter) forget(t *trackedConn) {
	if t.gone {
		return
	}
	t.gone = true
	c.open--
	of := c.hosts[t.host]
	if delete(of, t); len(of) == 0 {
		delete(c.hosts, t.host)
	}
	t.whole()
}

// whole ends the wait for the beginning of a connection. mu is held.
func (t *trackedConn) whole() {
	if t.half != nil {
		t.limiter.halfOpen.Remove(t.half)
		t.half = nil
	}
}

// greeted says that the connection has begun as it has to, and how its client is asked to close it:
// nil where it cannot be asked.
func (t *trackedConn) greeted(goAway func()) {
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	t.whole()
	t.goAway = goAway
}

// become says that conn takes the place of the tracked connection. It returns false for a connection
// that was closed.
func (t *trackedConn) become(conn net.Conn) bool {
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	t.conn = conn
	return !t.gone
}

// left says that the connection is closed. Repeatable.
func (t *trackedConn) left() {
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	t.limiter.forget(t)
	if t.draining {
		t.draining = false
		t.limiter.draining--
	}
}

// hostOf returns the address of the peer, without its port.
func hostOf(conn net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// idleOf returns how long ago the connection carried bytes last, as the system knows it; 0 where it
// does not.
func idleOf(conn net.Conn) time.Duration {
	sc, ok := security.Socket(conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	var ms uint32
	_ = raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			ms = min(i.Last_data_recv, i.Last_data_sent)
		}
	})
	return time.Duration(ms) * time.Millisecond
}
