package tcp

import (
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// serverConn serves one accepted connection. Its goroutine runs run; drain may be called by any.
type serverConn struct {
	n        *node
	conn     net.Conn
	pace     socket.Pacer
	gauge    socket.Gauge
	peer     frame.Session
	welcomed bool
	greeted  func() // ends its place among node.greetings
	term     *security.Term
	checks   bool              // payload checksums were agreed on
	subject  transport.Subject // of the identity that the peer has proved
	grant    transport.Grant   // of the batch, where granted
	granted  bool
	name     string // of the subject, for the log
	upstream bool   // the peer speaks upstream's protocol
	up       upstream.Header

	in    [frame.MaxBatch * frame.Size]byte
	batch [frame.MaxBatch]frame.Header
	out   outbox

	mu      sync.Mutex
	waiting bool // between batches
	closing bool
}

// outbox gathers the answers of one batch, so that they leave in one call. It refers to the memory
// of regions and holds them until flushed.
type outbox struct {
	batch []frame.Header
	vec   [][]byte // payloads, in order
	held  []*region
	bytes int
	raw   [frame.MaxBatch * frame.Size]byte
	bufs  net.Buffers
}

// The regions that this side serves, each held by the connections at work on it.
type (
	region      = regionkit.Region[*serverConn]
	regionTable = regionkit.Table[*serverConn]
	token       = regionkit.Token
)

func newServerConn(n *node, conn net.Conn) *serverConn {
	c := &serverConn{n: n, conn: conn}
	c.gauge.Open(conn)
	c.pace = socket.NewPacer(conn, socket.SourceOf(conn, n.cfg.BusyPoll), n.cfg.StallTimeout, &c.gauge, &n.stats.readCalls, &n.stats.writeCalls)
	return c
}

// errStopping ends a connection because the node stops.
var errStopping = errors.New("stopping")

// errTooLong ends a connection whose peer announced more payload than allowed.
var errTooLong = errors.New("frame too long")

func (c *serverConn) run() {
	defer c.n.serving.Done()
	defer c.n.leave(c)
	defer func() {
		c.term.Done()
		_ = c.conn.Close()
	}()
	if !c.greet() {
		return
	}
	if c.upstream {
		_ = c.serveUpstream() // The peer knows why, or its protocol has no words for it.
		return
	}
	err := c.serve()
	c.out.release(c)
	switch {
	case errors.Is(err, frame.ErrFrame):
		c.n.log.Warn("closing a connection that sent garbage", "peer", c.conn.RemoteAddr().String(), "error", err)
		c.farewell(frame.ReasonBadFrame, lingerTime, lingerBytes)
	case errors.Is(err, errTooLong):
		c.farewell(frame.ReasonTooLong, lingerTime, lingerBytes)
	case errors.Is(err, errStopping):
		// What the peer has sent by now is not carried out, and it is not to take that for lost.
		c.farewell(frame.ReasonStopping, min(c.n.stopLinger, c.n.cfg.StallTimeout), math.MaxInt64)
	}
}

// greet exchanges hellos, or reads the first request of an upstream peer, whose protocol has none.
// False means that the connection is of no use.
func (c *serverConn) greet() bool {
	cfg := &c.n.cfg
	limit := time.Now().Add(cfg.HandshakeTimeout)
	// The mark alone first: a stranger may have sent less than a hello, and waits.
	if socket.Tune(c.conn, cfg.SendBuffer, cfg.ReceiveBuffer) != nil || c.pace.ReadFull(c.in[:len(frame.HelloMagic)], limit) != nil {
		return false
	}
	inside := c.n.trust.on() && c.in[0] == recordHandshake
	if inside && !c.greetTLS(limit, c.in[:len(frame.HelloMagic)]) {
		return false
	}
	switch ours := string(c.in[:len(frame.HelloMagic)]) == frame.HelloMagic; {
	case inside && !ours:
		c.n.stats.foreign.Add(1)
		return false
	case c.n.trust.on() && !inside && (ours || !cfg.Upstream):
		c.n.stats.untrusted.Add(1)
		c.n.trust.turnAway(c.conn)
		return false
	case !ours:
		return c.greetUpstream(limit)
	}
	if c.pace.ReadFull(c.in[len(frame.HelloMagic):frame.Size], limit) != nil {
		return false
	}
	var theirs frame.Hello
	if theirs.Decode(c.in[:frame.Size]) != nil {
		c.n.stats.refuse(frame.ReasonBadFrame)
		return false
	}
	why := c.n.welcome(c, &theirs)
	c.n.stats.refuse(why)
	ours := frame.Hello{
		Low: frame.Version, High: frame.Version, Reason: why, Incarnation: c.n.incarnation, Session: c.n.session,
		MaxFrame: frame.MaxSlice, Idle: cfg.IdleTimeout,
	}
	if cfg.Checksum {
		ours.Flags |= frame.FlagChecksum
	}
	c.checks = cfg.Checksum || theirs.Flags&frame.FlagChecksum != 0
	ours.Put(c.in[:])
	answer := net.Buffers{c.in[:frame.Size]}
	if err := c.pace.WriteAll(&answer, limit); err != nil {
		return false
	}
	if why != frame.ReasonNone {
		c.linger(lingerTime, lingerBytes)
		return false
	}
	return true
}

// recordHandshake is the first byte of TLS.
const recordHandshake = 0x16

// greetTLS puts TLS over a connection whose first bytes, mark, are those of a client of TLS. It reports whether
// the peer is trusted; then mark has the first bytes of what it says inside.
func (c *serverConn) greetTLS(limit time.Time, mark []byte) bool {
	l, err := c.n.trust.accept(c.conn, c.pace.In, mark, limit)
	if err != nil {
		c.n.stats.untrusted.Add(1)
		c.linger(lingerTime, lingerBytes) // TLS has told the peer why.
		return false
	}
	c.subject, c.name = c.n.trust.subject(l)
	c.term = c.n.trust.bound(l, false, func(why error) {
		c.n.trust.tell(&c.n.trust.ended, "", "a connection was closed: its certificates are not good any more", c.conn.RemoteAddr(), "error", why)
		_ = c.conn.Close()
	})
	c.pace.ReadBy = time.Time{} // The handshake had deadlines of its own.
	c.pace.Secure(l)
	return c.pace.ReadFull(mark, limit) == nil
}

// next reads the headers of one batch. Between batches the peer may take idle_timeout.
func (c *serverConn) next() ([]frame.Header, error) {
	first := c.in[:frame.Size]
	if err := c.await(first); err != nil {
		return nil, err
	}
	if err := c.batch[0].Decode(first); err != nil {
		return nil, err
	}
	more := int(c.batch[0].Follow)
	if more == 0 {
		return c.batch[:1], nil
	}
	rest := c.in[frame.Size : frame.Size*(1+more)]
	if err := c.pace.ReadFull(rest, time.Time{}); err != nil {
		return nil, err
	}
	return c.batch[:1+more], frame.DecodeBatch(rest, c.batch[:1+more])
}

// await reads the first header of a batch. Only its first byte may take idle_timeout.
func (c *serverConn) await(b []byte) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return errStopping
	}
	// Under the lock, so that drain can move the deadline afterwards but not before.
	c.waiting, c.pace.ReadBy = true, time.Time{}
	err := c.conn.SetReadDeadline(time.Now().Add(c.n.cfg.IdleTimeout))
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.n.stats.readCalls.Add(1)
	got, err := c.pace.In.Read(b)
	c.mu.Lock()
	c.waiting = false
	closing := c.closing
	c.mu.Unlock()
	if got == 0 && closing {
		return errStopping
	}
	if got < len(b) && err != nil {
		return err
	}
	return c.pace.ReadFull(b[got:], time.Time{})
}

// drain ends the connection after the batch that is being served.
func (c *serverConn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.waiting {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // Wakes the reader; it still says goodbye.
	}
}

// farewell tells the peer why, and lets it close for a while and some bytes.
func (c *serverConn) farewell(why frame.Reason, limit time.Duration, bytes int64) {
	c.n.stats.refuse(why)
	c.out.add(why.Answer(frame.GoAway, 0), nil, nil)
	if c.flush() == nil {
		c.linger(limit, bytes)
	}
}

// The bounds of linger.
const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 1 << 20
	stopLinger  = 5 * time.Second // of a node that stops; peers that read close at once
)

// linger gives the peer a moment to read what was sent: closing a socket with unread input resets
// the connection and may destroy it.
func (c *serverConn) linger(limit time.Duration, bytes int64) {
	if t, ok := c.conn.(socket.TCP); ok {
		if t.CloseWrite() != nil || t.SetReadDeadline(time.Now().Add(limit)) != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, t, bytes) // Whatever ends it, the connection is over.
	}
}

const (
	// maxGreeting bounds the accepted connections that have not said hello yet; the oldest gives way.
	// An initiator of upstream opens one for each request of a batch, all at once.
	maxGreeting = 1024
)

// admit makes a server connection, or closes conn and returns nil where the node is stopping.
func (n *node) admit(conn net.Conn) *serverConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.life.Running() {
		_ = conn.Close()
		return nil
	}
	conn = busypoll.Adopt(conn, n.cfg.BusyPoll)
	c := newServerConn(n, n.wrap(conn))
	var shed bool
	if c.greeted, shed = n.greetings.Begin(conn); shed {
		n.stats.overflow.Add(1)
	}
	n.conns[c] = struct{}{}
	n.greeting++
	n.serving.Add(1)
	return c
}

// welcome counts a connection that said hello, or gives the reason to refuse it.
func (n *node) welcome(c *serverConn, h *frame.Hello) frame.Reason {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.life.Running():
		return frame.ReasonStopping
	case h.Incarnation != n.incarnation:
		return frame.ReasonStale
	case h.Low > frame.Version || h.High < frame.Version:
		return frame.ReasonVersion
	case len(n.conns)-n.greeting >= n.cfg.MaxConnections || n.perPeer[h.Session] >= n.cfg.MaxConnectionsPerPeer:
		return frame.ReasonBusy
	}
	c.greeted()
	n.greeting--
	n.perPeer[h.Session]++
	c.peer, c.welcomed = h.Session, true
	n.stats.Accepted.Add(1)
	n.stats.connsIn.Add(1)
	return frame.ReasonNone
}

// welcomeUpstream is welcome for a connection that began with a request of upstream.
func (n *node) welcomeUpstream(c *serverConn) frame.Reason {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.life.Running():
		return frame.ReasonStopping
	case len(n.conns)-n.greeting >= n.cfg.MaxConnections || n.upstreamIn >= n.cfg.MaxUpstreamConnections:
		return frame.ReasonBusy
	}
	c.greeted()
	n.greeting--
	n.upstreamIn++
	c.upstream, c.welcomed = true, true
	n.stats.acceptedUpstream.Add(1)
	n.stats.connsIn.Add(1)
	return frame.ReasonNone
}

// leave ends the accounting of a connection.
func (n *node) leave(c *serverConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	c.greeted()
	if !c.welcomed {
		n.greeting--
		return
	}
	n.stats.connsIn.Add(-1)
	if c.upstream {
		n.upstreamIn--
		return
	}
	if n.perPeer[c.peer]--; n.perPeer[c.peer] <= 0 {
		delete(n.perPeer, c.peer)
	}
}
