package uds

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// connection is one connection of a path with the goroutine that uses it. Only that goroutine sets
// conn, and it does so under path.mu.
type connection struct {
	p    *path
	conn net.Conn // nil while not connected
	last uint64   // the ID of the latest request
}

// run carries out operations until the path is closed.
func (c *connection) run() {
	p := c.p
	defer c.hangUp()
	for o := p.take(c); o != nil; o = p.take(c) {
		if c.conn == nil {
			if err := c.connect(o); err != nil {
				if p.giveBack(o) {
					return
				}
				p.end(o, err, false)
				continue
			}
		}
		indeterminate, err := c.carry(o)
		p.end(o, err, indeterminate)
	}
}

// carry moves an operation chunk by chunk. A failed Write is indeterminate if the peer may still
// store some of its bytes.
func (c *connection) carry(o *op) (indeterminate bool, err error) {
	for o.done < len(o.Local) {
		if err := c.arm(o); err != nil {
			return false, err // Between two chunks the connection stays usable.
		}
		chunk := o.Local[o.done:][:min(len(o.Local)-o.done, c.p.n.cfg.SliceBytes)]
		sent, err := c.exchange(o, chunk)
		var refused *errs.Error
		switch {
		case err == nil:
			o.done += len(chunk)
		case errors.As(err, &refused):
			return false, err
		default:
			c.hangUp() // The stream may be out of step.
			return sent && o.Kind == transport.Write, c.lost(err)
		}
	}
	return false, nil
}

// exchange sends the request for one chunk and waits for the answer. An *errs.Error is the peer's
// refusal. After any other error the connection is unusable, and sent reports whether any byte of
// the request was sent.
func (c *connection) exchange(o *op, chunk []byte) (sent bool, err error) {
	c.last++
	ask := header{
		Type: frameRead, ID: c.last, Length: uint32(len(chunk)),
		Region: o.key.Region, Token: o.key.Token, Offset: o.Offset + uint64(o.done),
	}
	var payload []byte
	if o.Kind == transport.Write {
		ask.Type, payload = frameWrite, chunk
	}
	var h header
	sent, err = askFor(c.conn, &ask, payload, &h)
	if err != nil {
		return sent, err
	}
	switch {
	case h.Type == frameRefused && h.ID == 0:
		c.hangUp() // The peer ended the connection. It carries out no request that it has not answered.
		return true, h.Reason.error(c.p.Name())
	case h.ID != ask.ID:
	case h.Type == frameRefused:
		return true, h.Reason.error(c.p.Name())
	case h.Type == frameDone && o.Kind == transport.Write:
		return true, nil
	case h.Type == frameData && o.Kind == transport.Read && h.Length == ask.Length:
		_, err := io.ReadFull(c.conn, chunk)
		return true, err
	}
	return true, fmt.Errorf("%w: type %d, %d bytes, request %d, in answer to request %d for %d bytes", errFrame, h.Type, h.Length, h.ID, ask.ID, ask.Length)
}

// askFor sends a frame with its payload and reads the answer. A peer that refuses the connection
// sends a refusal and closes it, perhaps before askFor has sent everything. In that case askFor
// returns the refusal rather than the write error.
func askFor(conn net.Conn, ask *header, payload []byte, h *header) (sent bool, err error) {
	n, err := writeFrame(conn, ask, payload)
	if err == nil {
		return true, readHeader(conn, h)
	}
	if readHeader(conn, h) == nil && h.Type == frameRefused && h.ID == 0 {
		return n > 0, nil
	}
	return n > 0, err
}

// arm sets the deadline of the next exchange. It returns an error if the operation was aborted.
func (c *connection) arm(o *op) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	return c.conn.SetDeadline(time.Now().Add(c.p.n.stall()))
}

// interrupt ends the exchange in flight because the deadline of its operation has passed or the
// path is closed. An attempt to connect needs no interrupt: it ends by the operation's deadline or
// with the path. The caller holds p.mu.
func (c *connection) interrupt() {
	if c.conn != nil {
		_ = c.conn.SetDeadline(time.Unix(1, 0)) // This fails only on a closed connection.
	}
}

// hangUp closes the connection if there is one.
func (c *connection) hangUp() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
		c.p.connected--
	}
}

// lost returns the error of an operation whose connection failed. An interrupted operation fails
// with op.err instead.
func (c *connection) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the peer did not answer for %s", c.p.n.stall())
	} else {
		err = fmt.Errorf("connection lost: %w", err)
	}
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: c.p.Name(), Err: err}
}
