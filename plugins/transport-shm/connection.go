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
type clientConn struct {
	p        *path
	conn     wire.Conn
	wake     chan struct{} // holds a token when the writer has something to do
	welcomed bool
	silent   bool // the reader has ended
	lost     error
	mapped   int       // mappings made over it
	jobs     []*remote // to be asked for, or to be unmapped
}

// connect opens a connection to a peer's socket and looks who listens there.
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

// reconnect makes a new connection in the background. path.mu is held.
func (p *path) reconnect(now time.Time) {
	l := &clientConn{p: p, wake: make(chan struct{}, 1)}
	p.conn = l
	p.clientConns.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.n.cfg.DialTimeout))
		defer cancel()
		c, err := p.n.connect(ctx, p.peer)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil && !p.Closed() {
			p.attend(c)
			return
		}
		if err == nil {
			_ = c.Close()
			err = p.ErrClosed()
		}
		// Nobody listens where the peer did: it stopped, or died.
		err = errs.WithClass(errs.ClassTransientPeer, p.Name(), err)
		p.retry.failed(err, now)
		l.silent = true
		l.lose(err)
		p.conn = nil
	})
}

// attend begins a connection over a connection. path.mu is held.
func (p *path) attend(c wire.Conn) {
	l := &clientConn{p: p, conn: c, wake: make(chan struct{}, 1)}
	p.conn = l
	p.n.stats.connsOut.Add(1)
	p.clientConns.Go(l.read)
	p.clientConns.Go(l.write)
}

// post gives the writer a remote to look after. path.mu is held.
func (l *clientConn) post(r *remote) {
	l.jobs = append(l.jobs, r)
	l.wakeWriter()
}

func (l *clientConn) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// lose ends a connection: operations in flight fail, mappings are unmapped. path.mu is held.
func (l *clientConn) lose(err error) {
	if l.lost != nil {
		return
	}
	l.lost = err
	p := l.p
	p.abortAll(nil, err)
	for r := range p.Remotes() {
		if r.state == remoteAttaching {
			r.state = remoteIdle
		}
		l.leave(r, err)
	}
	if l.conn.UnixConn != nil {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // Ends the reader.
	}
	l.wakeWriter()
}

// write carries out jobs until the connection is lost and nothing is mapped.
func (l *clientConn) write() {
	p := l.p
	l.say(wire.Message{Type: wire.MsgHello, Number: p.peer.Incarnation, Token: p.peer.Secret})
	for range l.wake {
		p.mu.Lock()
		for len(l.jobs) > 0 {
			r := l.jobs[0]
			l.jobs = l.jobs[1:]
			l.do(r)
		}
		over := l.lost != nil && l.mapped == 0 && l.silent
		if over {
			p.conn = nil
			p.retry.failed(l.lost, time.Now())
		}
		p.mu.Unlock()
		if over {
			_ = l.conn.Close() // This tells the peer that nothing is mapped.
			p.n.stats.connsOut.Add(-1)
			return
		}
	}
}

// do asks for a remote, or unmaps it. path.mu is held, but not while it does so.
func (l *clientConn) do(r *remote) {
	p := l.p
	switch {
	case r.state == remoteAttaching && l.lost == nil:
		m := wire.Message{Type: wire.MsgAttach, Handle: r.handle, Number: r.key.Region, Length: r.key.Length, Token: r.key.Token}
		p.mu.Unlock()
		l.say(m)
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
		l.mapped--
		if r.state = remoteIdle; r.revoked {
			r.state = remoteGone
		}
		if l.lost == nil {
			m := wire.Message{Type: wire.MsgDetached, Handle: r.handle}
			p.mu.Unlock()
			l.say(m)
			p.mu.Lock()
		}
	}
}

// say sends a message; the connection is lost where that is not possible.
func (l *clientConn) say(m wire.Message) {
	err := l.conn.Send(m, -1)
	if err == nil || wire.Ended(err) || errors.Is(err, unix.EPIPE) {
		return // The reader sees the end, and may still find the reason.
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.lose(errs.WithClass(errs.ClassTransientPeer, l.p.Name(), errs.Wrap(errs.TransferFail, "the peer does not take messages", err)))
}

// leave ends the use of a mapped remote. path.mu is held.
func (l *clientConn) leave(r *remote, err error) {
	if r.state != remoteReady {
		return
	}
	r.state, r.err = remoteLeaving, err
	l.p.abortAll(r, err)
	if r.running == 0 {
		l.post(r)
	}
}
