package tcp

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// upIdle is how long a peer of upstream is taken to keep a connection without work.
const upIdle = 2 * time.Minute

// The cuts of an operation for a peer of upstream: a multiple of upAlign, at most upMaxPart.
const (
	upAlign   = 4 << 10
	upMaxPart = 1 << 30
)

// cut returns how long the next part of an operation may be. Where one request after the
// other goes over a lane each costs a round trip, so there an operation is cut into as many
// parts as there are lanes, and none smaller than a slice.
func (l *lane) cut(o *op) int {
	if l.p.peer.Upstream == 0 {
		if l.p.far {
			return min(l.maxSlice, farPart)
		}
		return l.maxSlice
	}
	share := (len(o.Local) + l.p.maxLanes - 1) / l.p.maxLanes
	return min(max(l.maxSlice, (share+upAlign-1)&^(upAlign-1)), upMaxPart)
}

// sendUpstream puts the one request of a train on the wire. After a WRITE of version 1,
// which has no answer, follows a READ of its last byte: since the peer serves one request
// after the other, the answer to that says that the bytes are in its memory.
func (l *lane) sendUpstream() error {
	w := &l.w
	ask := &w.train[0]
	h := upHeader{Size: uint64(ask.Length), Addr: ask.Region + ask.Offset, Op: upRead, V2: l.p.peer.Upstream == 2}
	if pt := w.parts[0]; pt != nil {
		h.Op, h.Size = upWrite, uint64(len(pt.buf))
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
func (l *lane) readUpstream() error {
	head := l.r.in[:upStatusSize]
	if l.p.peer.Upstream == 1 {
		head = head[:1] // Of the payload. Waiting for it shows that the peer has closed.
	}
	for {
		if got, err := l.readFull(head, nil); err != nil {
			return l.closedUpstream(got, err)
		}
		if err := l.answerUpstream(head); err != nil {
			return err
		}
	}
}

// errUnasked says that a peer of upstream sent bytes without a request.
var errUnasked = errors.New("an answer that was not asked for")

// answerUpstream handles the answer that begins with head.
func (l *lane) answerUpstream(head []byte) error {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	pt := l.slots[0]
	if pt == nil || pt.answered {
		return fmt.Errorf("%w: %w", errFrame, errUnasked)
	}
	if len(head) == upStatusSize {
		status, err := decodeStatus(head)
		if err != nil {
			return err
		}
		if status != upStatusOK {
			refused := upRefusal(p.Name(), status)
			l.die(refused) // The peer closes the connection. First, so that it takes no more work.
			l.resolve(pt, refused)
			return refused
		}
		head = nil
	}
	if !pt.write {
		return l.receive(pt, head, 0)
	}
	l.resolve(pt, nil)
	return nil
}

// closedUpstream is what the end of a connection means that came in place of an answer.
// Version 1 has no other way to reject an address, so that is an answer too; either way the
// peer is to be looked up again.
func (l *lane) closedUpstream(got int, err error) error {
	if l.p.peer.Upstream != 1 || got > 0 || !errors.Is(err, io.EOF) {
		return err
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.owed() {
		l.proven = true
		l.p.retry.Answered()
	}
	return &errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Err: fmt.Errorf("the peer closed it without an answer: %w", err),
		Hint: "it ended, or has no such buffer (any more): fetch its descriptor again",
	}
}

// errWordless ends a connection that could not be written to and on which nothing was said.
var errWordless = errors.New("the peer takes no more bytes and gave no reason")

// hearTime is for a machine that is busy; what the peer said is there already.
const hearTime = 2 * time.Second

// hearOut lets the reader go on for a moment after the writer failed: a peer that rejects a
// WRITE says so and closes, and the writer may notice the second before the reader the first.
func (l *lane) hearOut() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.up {
		l.hearing = true
		_ = l.conn.SetReadDeadline(time.Now().Add(hearTime))
	}
}
