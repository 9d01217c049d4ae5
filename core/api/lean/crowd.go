package lean

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// awake is how long a connection has to be idle to give way to one of a host that has as many. Tests
// change it.
var awake = 100 * time.Millisecond

const (
	// hold is how long a new connection waits for another to be idle for awake at most, jiffy how
	// exactly the system measures that.
	hold, jiffy = 200 * time.Millisecond, 10 * time.Millisecond
	// farewell is how long a client that was told goodbye may take to close its connection.
	farewell = 2 * time.Second
	// mostHalfOpen bounds the connections whose beginning is awaited, leastHalfOpen is the bound
	// where few connections may be open.
	mostHalfOpen, leastHalfOpen = 256, 8
)

// Parting is why a connection was closed to make room.
type Parting string

// The values of Parting.
const (
	PartedIdle     Parting = "idle"      // it was idle for longest, among those of the host that had the most
	PartedHalfOpen Parting = "half_open" // too many had not sent their beginning, and it waited for longest
	PartedNew      Parting = "refused"   // every other connection of its host was in use
)

// Crowd says what was done about too many connections.
type Crowd struct {
	Why Parting
	// Host is the address of the host whose connection was closed, invalid for one that has no
	// address. OfHost is how many connections the host has left.
	Host   netip.Addr
	OfHost int
	// Open is how many connections are left, Most how many there may be, 0 for any number.
	Open, Most int
	// Descriptors says that the process had no file descriptor left for a new connection.
	Descriptors bool
}

// crowd bounds the connections of a listener, in favour of the hosts that have few.
type crowd struct {
	most, half int
	tell       func(Crowd)

	mu       sync.Mutex
	open     int // guests that were not parted with
	leaving  int // of those that were, whose clients were told goodbye and may close the connection yet
	hosts    map[netip.Addr]map[*guest]struct{}
	halfOpen *list.List // of *guest, the oldest first
}

func newCrowd(most int, tell func(Crowd)) *crowd {
	half := mostHalfOpen
	if most > 0 {
		half = min(half, max(leastHalfOpen, most/4))
	}
	if tell == nil {
		tell = func(Crowd) {}
	}
	return &crowd{most: most, half: half, tell: tell, hosts: map[netip.Addr]map[*guest]struct{}{}, halfOpen: list.New()}
}

// guest is a connection of a crowd.
type guest struct {
	crowd *crowd
	host  netip.Addr

	// With mu of the crowd:

	conn  net.Conn
	leave func() // asks the client to close the connection, nil where it cannot be asked
	half  *list.Element
	gone  bool // it is not counted any more
	// leaving says that it counts as one of crowd.leaving.
	leaving bool
}

// enter counts a connection, and makes room for it, for which it waits a moment where every other
// connection was in use just now. It returns nil for one that it has closed.
func (c *crowd) enter(conn net.Conn) *guest {
	g := &guest{crowd: c, conn: conn, host: hostOf(conn)}
	c.mu.Lock()
	if c.hosts[g.host] == nil {
		c.hosts[g.host] = map[*guest]struct{}{}
	}
	c.hosts[g.host][g] = struct{}{}
	c.open++
	g.half = c.halfOpen.PushBack(g)
	var parted []func()
	if c.halfOpen.Len() > c.half {
		if oldest, ok := c.halfOpen.Front().Value.(*guest); ok {
			parted = append(parted, c.part(oldest, PartedHalfOpen, false))
		}
	}
	refused := false
	for waited := false; c.most > 0 && c.open > c.most; waited = true {
		v, idle := c.victim(g)
		if v != nil && (idle >= awake || len(c.hosts[v.host]) > len(c.hosts[g.host])) {
			parted = append(parted, c.part(v, PartedIdle, false))
			break
		}
		if refused = waited || v == nil; refused {
			parted = append(parted, c.part(g, PartedNew, false))
			break
		}
		c.mu.Unlock()
		time.Sleep(min(awake-idle+jiffy, hold))
		c.mu.Lock()
	}
	c.mu.Unlock()
	for _, f := range parted {
		f()
	}
	if refused {
		return nil
	}
	return g
}

// shed closes a connection because the process has no file descriptors left.
func (c *crowd) shed() {
	c.mu.Lock()
	v, _ := c.victim(nil)
	if v == nil {
		c.mu.Unlock()
		c.tell(Crowd{Why: PartedNew, Most: c.most, Descriptors: true})
		return
	}
	parted := c.part(v, PartedIdle, true)
	c.mu.Unlock()
	parted()
}

// victim returns the connection that is idle for longest, of the host with the most, and for how
// long. It is not g, and nil where there is no other. mu is held.
func (c *crowd) victim(g *guest) (v *guest, idle time.Duration) {
	most := 0
	for _, of := range c.hosts {
		most = max(most, len(of))
	}
	for _, of := range c.hosts {
		if len(of) < most {
			continue
		}
		for x := range of {
			if x == g {
				continue
			}
			if d := idleOf(x.conn); v == nil || d > idle {
				v, idle = x, d
			}
		}
	}
	return v, idle
}

// part stops counting a connection. What it returns, to be called without mu, ends the connection
// and tells of it. mu is held.
func (c *crowd) part(g *guest, why Parting, descriptors bool) func() {
	c.forget(g)
	conn, leave := g.conn, g.leave
	if g.leaving = leave != nil && !descriptors && c.leaving < c.half; g.leaving {
		c.leaving++
	}
	asked := g.leaving
	told := Crowd{Why: why, Host: g.host, OfHost: len(c.hosts[g.host]), Open: c.open, Most: c.most, Descriptors: descriptors}
	return func() {
		if asked {
			leave()
			time.AfterFunc(farewell, func() { _ = conn.Close() })
		} else {
			_ = conn.Close()
		}
		c.tell(told)
	}
}

// forget stops counting a connection. mu is held.
func (c *crowd) forget(g *guest) {
	if g.gone {
		return
	}
	g.gone = true
	c.open--
	of := c.hosts[g.host]
	if delete(of, g); len(of) == 0 {
		delete(c.hosts, g.host)
	}
	g.whole()
}

// whole ends the wait for the beginning of a connection. mu is held.
func (g *guest) whole() {
	if g.half != nil {
		g.crowd.halfOpen.Remove(g.half)
		g.half = nil
	}
}

// greeted says that the connection has begun as it has to, and how its client is asked to close it:
// nil where it cannot be asked.
func (g *guest) greeted(leave func()) {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.whole()
	g.leave = leave
}

// become says that conn takes the place of the guest's connection. It returns false for a guest
// that was parted with.
func (g *guest) become(conn net.Conn) bool {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.conn = conn
	return !g.gone
}

// left says that the connection is closed. Repeatable.
func (g *guest) left() {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.crowd.forget(g)
	if g.leaving {
		g.leaving = false
		g.crowd.leaving--
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
	sc, ok := conn.(syscall.Conn)
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
