package uds

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// backoff makes operations fail at once for a while after an attempt to connect has failed. path.mu
// guards it.
type backoff struct {
	err       error
	pause     time.Duration
	notBefore time.Time
}

// The pause between attempts doubles from the first to the second.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

func (b *backoff) failed(err error, now time.Time) {
	b.pause = min(max(2*b.pause, leastPause), mostPause)
	b.err, b.notBefore = err, now.Add(b.pause)
}

// connect connects on behalf of an operation that waits for the connection.
func (c *connection) connect(o *op) error {
	p := c.p
	p.mu.Lock()
	now, retry := time.Now(), p.retry
	p.mu.Unlock()
	if now.Before(retry.notBefore) {
		return retry.err
	}
	limit := now.Add(time.Duration(p.n.cfg.DialTimeout))
	short := o.Deadline.Before(limit)
	if short {
		limit = o.Deadline
	}
	conn, err := p.dial(limit)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		c.conn, p.retry = conn, backoff{}
		p.connected++
	case short && o.Late(time.Now()):
		err = p.ErrDeadline(err) // This says nothing about the peer yet.
	default:
		p.retry.failed(err, time.Now())
	}
	return err
}

// dial connects and exchanges hellos.
func (p *path) dial(limit time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(p.ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", p.peer.Socket)
	if err == nil {
		unhook := context.AfterFunc(ctx, func() { _ = c.Close() }) // Ends the exchange of hellos.
		if err = p.hello(c, limit); !unhook() {
			err = errors.Join(err, ctx.Err())
		}
		if err == nil {
			return c, nil
		}
		_ = c.Close()
	}
	var refused *errs.Error
	if errors.As(err, &refused) {
		return nil, err
	}
	class := errs.ClassTransientPath
	for _, gone := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, io.EOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			class = errs.ClassTransientPeer // The peer stopped or died, maybe after it accepted the connection.
		}
	}
	return nil, &errs.Error{Code: errs.TransferFail, Class: class, Op: p.Name(), Err: err, Hint: "see whether the process of the peer runs"}
}

// hello exchanges hellos as the side that connected.
func (p *path) hello(c net.Conn, limit time.Time) error {
	if err := c.SetDeadline(limit); err != nil {
		return err
	}
	var h header
	if _, err := askFor(c, &header{Type: frameHello, ID: wireVersion, Region: p.peer.Incarnation}, nil, &h); err != nil {
		return err
	}
	switch {
	case h.Type == frameRefused:
		return h.Reason.error(p.Name())
	case h.Type != frameHello || h.ID != wireVersion || h.Region != p.peer.Incarnation:
		return errFrame
	}
	return nil
}
