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

// lane is one connection of a path and the goroutine that works it. The goroutine alone sets
// conn, under path.mu.
type lane struct {
	p    *path
	conn net.Conn
	last uint64 // the ID of the latest request
}

// run carries out operations until the path is closed.
func (l *lane) run() {
	p := l.p
	defer l.hangUp()
	for o := p.take(l); o != nil; o = p.take(l) {
		if l.conn == nil {
			if err := l.connect(o); err != nil {
				if p.giveBack(o) {
					return
				}
				p.end(o, err, false)
				continue
			}
		}
		doubt, err := l.carry(o)
		p.end(o, err, doubt)
	}
}

// carry moves an operation piece by piece. doubt says that the peer may still store bytes of
// a Write that failed.
func (l *lane) carry(o *op) (doubt bool, err error) {
	for o.done < len(o.Local) {
		if err := l.arm(o); err != nil {
			return false, err // Between two pieces the connection is as good as new.
		}
		piece := o.Local[o.done:][:min(len(o.Local)-o.done, l.p.n.cfg.SliceBytes)]
		sent, err := l.exchange(o, piece)
		var refused *errs.Error
		switch {
		case err == nil:
			o.done += len(piece)
		case errors.As(err, &refused):
			return false, err
		default:
			l.hangUp() // Nobody knows what would come next on it.
			return sent && o.Kind == transport.Write, l.lost(err)
		}
	}
	return false, nil
}

// exchange asks for one piece and waits for the answer. An *errs.Error is the peer's refusal; after
// any other error the connection is of no use, and sent says that some of the request has left.
func (l *lane) exchange(o *op, piece []byte) (sent bool, err error) {
	l.last++
	ask := header{
		Type: frameRead, ID: l.last, Length: uint32(len(piece)),
		Region: o.key.Region, Token: o.key.Token, Offset: o.Offset + uint64(o.done),
	}
	var payload []byte
	if o.Kind == transport.Write {
		ask.Type, payload = frameWrite, piece
	}
	var h header
	sent, err = askFor(l.conn, &ask, payload, &h)
	if err != nil {
		return sent, err
	}
	switch {
	case h.Type == frameRefused && h.ID == 0:
		l.hangUp() // The peer ended the connection, and carries out nothing that it has not answered.
		return true, h.Reason.error(l.p.Name())
	case h.ID != ask.ID:
	case h.Type == frameRefused:
		return true, h.Reason.error(l.p.Name())
	case h.Type == frameDone && o.Kind == transport.Write:
		return true, nil
	case h.Type == frameData && o.Kind == transport.Read && h.Length == ask.Length:
		_, err := io.ReadFull(l.conn, piece)
		return true, err
	}
	return true, fmt.Errorf("%w: type %d, %d bytes, request %d, in answer to request %d for %d bytes", errFrame, h.Type, h.Length, h.ID, ask.ID, ask.Length)
}

// askFor sends a frame with its payload and reads the frame that answers it. A peer that refuses the
// connection says so and closes it, perhaps before all was sent: then its word counts, not the failure.
func askFor(c net.Conn, ask *header, payload []byte, h *header) (sent bool, err error) {
	n, err := writeFrame(c, ask, payload)
	if err == nil {
		return true, readHeader(c, h)
	}
	if readHeader(c, h) == nil && h.Type == frameRefused && h.ID == 0 {
		return n > 0, nil
	}
	return n > 0, err
}

// arm limits the next exchange, or says why the operation is to be given up.
func (l *lane) arm(o *op) error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	return l.conn.SetDeadline(time.Now().Add(l.p.n.stall()))
}

// interrupt ends the exchange under way: the deadline of its operation has passed, or the path is
// closed. While the lane connects there is none; that ends by the
// deadline of its operation, or with the path. p.mu is held.
func (l *lane) interrupt() {
	if l.conn != nil {
		_ = l.conn.SetDeadline(time.Unix(1, 0)) // It fails on a closed connection only.
	}
}

// hangUp closes the connection if there is one.
func (l *lane) hangUp() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
		l.p.connected--
	}
}

// lost is what an operation fails with whose connection ended under it, unless it was interrupted.
func (l *lane) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the peer did not answer for %s", l.p.n.stall())
	} else {
		err = fmt.Errorf("connection lost: %w", err)
	}
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: l.p.Name(), Err: err}
}
