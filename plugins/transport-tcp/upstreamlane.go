package tcp

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// upIdle is how long a peer of upstream is taken to keep a connection without work.
const upIdle = 2 * time.Minute

// The cuts of an operation for a peer of upstream: a multiple of upAlign, at most upMaxPart.
const (
	upAlign    = 4 << 10
	upMaxChunk = 1 << 30
)

// cut returns how long the next part of an operation may be. Where one request after the
// other goes over a connection each costs a round trip, so there an operation is cut into as many
// parts as there are connections, and none smaller than a slice.
func (c *connection) cut(o *op) int {
	if c.p.peer.Upstream == 0 {
		if c.p.far {
			return min(c.maxSlice, farChunk)
		}
		return c.maxSlice
	}
	share := (len(o.Local) + c.p.maxConns - 1) / c.p.maxConns
	return min(max(c.maxSlice, (share+upAlign-1)&^(upAlign-1)), upMaxChunk)
}

// sendUpstream puts the one request of a batch on the wire. After a WRITE of version 1,
// which has no answer, follows a READ of its last byte: since the peer serves one request
// after the other, the answer to that says that the bytes are in its memory.
func (c *connection) sendUpstream() error {
	w := &c.w
	ask := &w.batch[0]
	h := upHeader{Size: uint64(ask.Length), Addr: ask.Region + ask.Offset, Op: upRead, V2: c.p.peer.Upstream == 2}
	if ch := w.chunks[0]; ch != nil {
		h.Op, h.Size = upWrite, uint64(len(ch.buf))
		if !h.V2 {
			last := upHeader{Size: 1, Addr: h.Addr + h.Size - 1, Op: upRead}
			w.vec[w.used] = last.put(w.raw[upHeaderSize:])
			w.used++
		}
	}
	w.vec[0] = h.put(w.raw[:])
	w.bufs = w.vec[:w.used]
	err := w.pace.writeAll(&w.bufs, time.Time{})
	clear(w.vec[:w.used])
	return err
}

// readUpstream takes answers until the connection ends. It always returns an error.
func (c *connection) readUpstream() error {
	head := c.r.in[:upStatusSize]
	if c.p.peer.Upstream == 1 {
		head = head[:1] // Of the payload. Waiting for it shows that the peer has closed.
	}
	for {
		if got, err := c.readFull(head, nil); err != nil {
			return c.closedUpstream(got, err)
		}
		if err := c.answerUpstream(head); err != nil {
			return err
		}
	}
}

// errUnasked says that a peer of upstream sent bytes without a request.
var errUnasked = errors.New("an answer that was not asked for")

// answerUpstream handles the answer that begins with head.
func (c *connection) answerUpstream(head []byte) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := c.slots[0]
	if ch == nil || ch.answered {
		return fmt.Errorf("%w: %w", frame.ErrFrame, errUnasked)
	}
	if len(head) == upStatusSize {
		status, err := decodeStatus(head)
		if err != nil {
			return err
		}
		if status != upStatusOK {
			refused := upRefusal(p.Name(), status)
			c.die(refused) // The peer closes the connection. First, so that it takes no more work.
			c.resolve(ch, refused)
			return refused
		}
		head = nil
	}
	if !ch.write {
		return c.receive(ch, head, 0)
	}
	c.resolve(ch, nil)
	return nil
}

// closedUpstream is what the end of a connection means that came in place of an answer.
// Version 1 has no other way to reject an address, so that is an answer too; either way the
// peer is to be looked up again.
func (c *connection) closedUpstream(got int, err error) error {
	if c.p.peer.Upstream != 1 || got > 0 || !errors.Is(err, io.EOF) {
		return err
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.owed() {
		c.proven = true
		c.p.retry.Answered()
	}
	return &errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Err: fmt.Errorf("the peer closed it without an answer: %w", err),
		Hint: "it ended, or has no such buffer (any more): fetch its descriptor again",
	}
}

// errWordless ends a connection that could not be written to and on which nothing was said.
var errNoReason = errors.New("the peer takes no more bytes and gave no reason")

// hearTime is for a machine that is busy; what the peer said is there already.
const hearTime = 2 * time.Second

// hearOut lets the reader go on for a moment after the writer failed: a peer that rejects a
// WRITE says so and closes, and the writer may notice the second before the reader the first.
func (c *connection) hearOut() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.up {
		c.hearing = true
		_ = c.conn.SetReadDeadline(time.Now().Add(hearTime))
	}
}
