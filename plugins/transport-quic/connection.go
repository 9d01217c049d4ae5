package quic

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// connection is one connection to the peer. All fields are guarded by path.mu.
type connection struct {
	p    *path
	quic *quicgo.Conn
	up   bool // connected and not yet at its end
	flow flow
	used time.Time
	// shown is the certificate of this side; the connection is left at leaveAt, or when there is another one. Both do not
	// change once the connection is up.
	shown   *x509.Certificate
	leaveAt time.Time
	leaving bool          // nothing begins on it any more
	wake    chan struct{} // of watch
	// proven says that an answer came: the peer is there and lets this node in.
	proven bool
	loss   uint16 // of either direction, of 65536
}

// kick gives work that waits to connections with space, and makes more connections where it pays.
// The caller holds p.mu.
func (p *path) kick() {
	for p.queue.First() != nil && !p.Closed() {
		var best *connection
		for _, c := range p.conns {
			if c.up && c.hasSpace(p.queue.First()) && (best == nil || c.flow.free() > best.flow.free()) {
				best = c
			}
		}
		if best == nil {
			break
		}
		best.begin(p.cutChunk(p.queue.First()))
	}
	p.grow()
}

func (c *connection) hasSpace(o *op) bool {
	return !c.leaving && c.flow.fits(min(c.p.n.cfg.SliceBytes, len(o.Local)-o.cut), c.p.n.cfg.StreamsPerConnection)
}

// connShare is how many bytes in flight, and how many requests, are worth a connection of their
// own.
const (
	connShare    = 128 << 10
	connRequests = 16
)

// grow makes connections for what waits and is in flight: one at first, and when that has led to
// the peer, as many as are worth it at once, since each takes round trips to be made.
func (p *path) grow() {
	if p.Closed() || p.queue.First() == nil && p.moving == 0 {
		return
	}
	want, up, left, requests := int((p.moving+p.queued+connShare-1)/connShare), 0, 0, 0
	for _, c := range p.conns {
		switch {
		case c.leaving:
			left++
		case c.up:
			up++
		}
		requests += c.flow.requests
	}
	want = min(max(want, (requests+connRequests-1)/connRequests, 1), p.most())
	if up == 0 {
		want = min(want, 1)
	}
	for len(p.conns)-left < want {
		c := &connection{p: p, wake: make(chan struct{}, 1)}
		p.conns = append(p.conns, c)
		p.opening++
		p.work.Go(c.run)
	}
}

// begin starts a chunk on the connection. The caller holds p.mu.
func (c *connection) begin(ch *chunk) {
	c.flow.began(len(ch.buf))
	c.p.moving += int64(len(ch.buf))
	c.p.work.Go(func() { c.move(ch) })
}

// run connects, and waits for the end of the connection.
func (c *connection) run() {
	p := c.p
	sock := c.connect()
	if sock == nil {
		p.mu.Lock()
		p.forget(c)
		p.mu.Unlock()
		return
	}
	err := c.watch(sock.conn)
	p.mu.Lock()
	c.ended(err)
	p.mu.Unlock()
	sock.close()
}

// watch returns when the connection is over: nil where this side closed it for want of work, or
// because the path was closed.
func (c *connection) watch(q *quicgo.Conn) error {
	p, idle := c.p, c.p.n.cfg.IdleTimeout
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case <-q.Context().Done():
			return context.Cause(q.Context())
		case <-p.ctx.Done():
			_ = q.CloseWithError(code(wire.ReasonNone), "")
			return nil
		case <-timer.C:
		case <-c.wake:
		}
		p.mu.Lock()
		rest := idle - time.Since(c.used)
		if c.flow.requests == 0 && (rest <= 0 || c.leaving) {
			c.up = false
		}
		over := !c.up
		p.mu.Unlock()
		if over {
			_ = q.CloseWithError(code(wire.ReasonNone), "")
			return nil
		}
		timer.Reset(max(rest, idle/8))
	}
}

// bound sets when the connection is left: at 70 to 80 % of the time that the certificates have. The caller holds p.mu.
func (c *connection) bound(sock *carrier, now time.Time) {
	c.shown = sock.shown
	ends := c.shown.NotAfter
	if peer := sock.conn.ConnectionState().TLS.PeerCertificates; len(peer) > 0 && peer[0].NotAfter.Before(ends) {
		ends = peer[0].NotAfter
	}
	c.leaveAt = now.Add(time.Duration(float64(ends.Sub(now)) * (0.7 + rand.Float64()/10))) //nolint:gosec // It spreads the load.
}

// leave has the connection end once no request is in flight.
func (c *connection) leave() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.leaving = true
	c.rouse()
	c.p.kick()
}

// rouse wakes watch where the connection is at its end. The caller holds p.mu.
func (c *connection) rouse() {
	if c.leaving && c.flow.requests == 0 {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// ended removes a closed connection from the path. Its chunks notice by themselves. The caller
// holds p.mu.
func (c *connection) ended(err error) {
	p := c.p
	c.up = false
	if err != nil && c.flow.requests > 0 {
		p.n.stats.connsCut.Add(1)
	}
	p.forget(c)
	if err != nil && !c.proven {
		f := &transportkit.DialFailure{Err: err, Heard: true, Absent: closedFor(err) == wire.ReasonStopping}
		if distrust(err) {
			f.Means, f.Hint = meansDistrust, hintDistrust
		}
		p.failed(f, time.Time{})
	}
	p.kick()
}

func (p *path) forget(c *connection) {
	for i, x := range p.conns {
		if x == c {
			p.conns = append(p.conns[:i], p.conns[i+1:]...)
			return
		}
	}
}

// lost is what the chunks of a connection fail with that is over, or of a stream that the peer gave
// up.
func (p *path) lost(err error) error {
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: p.Name()}
	var stream *quicgo.StreamError
	var reset *quicgo.StatelessResetError
	var refused *quicgo.TransportError
	switch r := closedFor(err); {
	case r != wire.ReasonNone:
		i := r.Info()
		e.Code, e.Class, e.Err = i.Code, i.Class, fmt.Errorf("connection closed: %s", i.Text)
	case errors.As(err, &stream) && stream.Remote:
		i := wire.Reason(min(stream.ErrorCode, quicgo.StreamErrorCode(wire.NumReasons))).Info()
		e.Code, e.Class, e.Err = i.Code, i.Class, fmt.Errorf("the peer gave the request up: %s", i.Text)
	case distrust(err):
		e.Class, e.Err, e.Hint = errs.ClassTransientPeer, fmt.Errorf("the peer refuses the certificate of this node: %w", err), hintDistrust
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quicgo.ConnectionRefused:
		e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("the peer takes no connections: %w", err)
	case errors.As(err, &reset):
		e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("connection lost: the peer was restarted: %w", err)
	default:
		e.Err = fmt.Errorf("connection lost: %w", err)
	}
	return e
}
