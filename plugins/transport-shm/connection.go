package shm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// backoff is how operations fail at once after connecting failed.
type backoff struct {
	err       error
	notBefore time.Time
	wait      time.Duration
}

// The pause between attempts to connect doubles from the first to the second.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Second
)

func (b *backoff) failed(err error, now time.Time) {
	b.wait = min(max(2*b.wait, minRetry), maxRetry)
	b.err, b.notBefore = err, now.Add(b.wait)
}

// connection is one connection of a path, with two goroutines: one reads and maps, one writes and
// unmaps. It ends, and closes its end, only once nothing is mapped over it. path.mu guards all but
// conn.
type connection struct {
	p        *path
	conn     wire.Conn
	wake     chan struct{} // holds a token when the writer has something to do
	welcomed bool
	silent   bool // the reader has ended
	lost     error
	mapped   int       // mappings made over it
	jobs     []*remote // to be asked for, or to be unmapped
}

// connect opens a connection to a peer's socket and checks which user listens there.
func (n *node) connect(ctx context.Context, e wire.Endpoint) (wire.Conn, error) {
	const op = "transport/shm: connect"
	n.stats.Dials.Add(1)
	c, err := wire.Dial(ctx, e.Socket)
	if err == nil {
		var user uint32
		if user, err = c.PeerUser(); err == nil && wire.Foreign(user) && n.cfg.Access != AccessAny {
			err = fmt.Errorf("the peer belongs to user %d (setting access)", user)
		}
		if err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	n.stats.DialsFailed.Add(1)
	return wire.Conn{}, errs.WithClass(errs.ClassTransientPath, op, errs.Wrap(errs.TransferFail, e.Socket, err))
}

// reconnect makes a new connection in the background. The caller holds path.mu.
func (p *path) reconnect(now time.Time) {
	l := &connection{p: p, wake: make(chan struct{}, 1)}
	p.conn = l
	p.connsDone.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.n.cfg.DialTimeout))
		defer cancel()
		c, err := p.n.connect(ctx, p.peer)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil && !p.Closed() {
			p.begun(c)
			return
		}
		if err == nil {
			_ = c.Close()
			err = p.ErrClosed()
		}
		// No process listens where the peer did: the peer stopped, or died.
		err = errs.WithClass(errs.ClassTransientPeer, p.Name(), err)
		p.retry.failed(err, now)
		l.silent = true
		l.lose(err)
		p.conn = nil
	})
}

// begun starts a connection over c. The caller holds path.mu.
func (p *path) begun(c wire.Conn) {
	l := &connection{p: p, conn: c, wake: make(chan struct{}, 1)}
	p.conn = l
	p.n.stats.connsOut.Add(1)
	p.connsDone.Go(l.read)
	p.connsDone.Go(l.write)
}

// post gives the writer a remote to look after. The caller holds path.mu.
func (c *connection) post(r *remote) {
	c.jobs = append(c.jobs, r)
	c.wakeWriter()
}

func (c *connection) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// lose ends a connection: operations in flight fail, mappings are unmapped. The caller holds
// path.mu.
func (c *connection) lose(err error) {
	if c.lost != nil {
		return
	}
	c.lost = err
	p := c.p
	p.abortAll(nil, err)
	for r := range p.Remotes() {
		if r.state == remoteAttaching {
			r.state = remoteIdle
		}
		c.unmap(r, err)
	}
	if c.conn.UnixConn != nil {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // Ends the reader.
	}
	c.wakeWriter()
}

// write carries out jobs until the connection is lost and nothing is mapped.
func (c *connection) write() {
	p := c.p
	c.say(wire.Message{Type: wire.MsgHello, Number: p.peer.Incarnation, Token: p.peer.Secret})
	for range c.wake {
		p.mu.Lock()
		for len(c.jobs) > 0 {
			r := c.jobs[0]
			c.jobs = c.jobs[1:]
			c.do(r)
		}
		over := c.lost != nil && c.mapped == 0 && c.silent
		if over {
			p.conn = nil
			p.retry.failed(c.lost, time.Now())
		}
		p.mu.Unlock()
		if over {
			_ = c.conn.Close() // This tells the peer that nothing is mapped.
			p.n.stats.connsOut.Add(-1)
			return
		}
	}
}

// do asks for a remote, or unmaps it. path.mu is held, but not while it does so.
func (c *connection) do(r *remote) {
	p := c.p
	switch {
	case r.state == remoteAttaching && c.lost == nil:
		m := wire.Message{Type: wire.MsgAttach, Handle: r.handle, Number: r.key.Region, Length: r.key.Length, Token: r.key.Token}
		p.mu.Unlock()
		c.say(m)
		p.mu.Lock()
	case r.state == remoteLeaving && r.mapping != nil:
		mapping := r.mapping
		r.mapping, r.mem, r.touched = nil, nil, nil
		p.mu.Unlock()
		if err := unix.Munmap(mapping); err != nil {
			p.n.log.Error("a region of a peer stays mapped", "bytes", len(mapping), "error", err) // Of no harm but for the address space.
		}
		p.n.stats.mappings.Add(-1)
		p.n.stats.mappedBytes.Add(-int64(len(mapping)))
		p.mu.Lock()
		c.mapped--
		if r.state = remoteIdle; r.revoked {
			r.state = remoteGone
		}
		if c.lost == nil {
			m := wire.Message{Type: wire.MsgDetached, Handle: r.handle}
			p.mu.Unlock()
			c.say(m)
			p.mu.Lock()
		}
	}
}

// say sends a message; the connection is lost where that is not possible.
func (c *connection) say(m wire.Message) {
	err := c.conn.Send(m, -1)
	if err == nil || wire.Ended(err) || errors.Is(err, unix.EPIPE) {
		return // The reader sees the end, and may still find the reason.
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.lose(errs.WithClass(errs.ClassTransientPeer, c.p.Name(), errs.Wrap(errs.TransferFail, "the peer does not take messages", err)))
}

// leave ends the use of a mapped remote. The caller holds path.mu.
func (c *connection) unmap(r *remote, err error) {
	if r.state != remoteReady {
		return
	}
	r.state, r.err = remoteLeaving, err
	c.p.abortAll(r, err)
	if r.running == 0 {
		c.post(r)
	}
}
