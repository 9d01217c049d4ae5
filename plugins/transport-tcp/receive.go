package tcp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (c *connection) receiveAny() error {
	if c.p.peer.Upstream != 0 {
		return c.readUpstream()
	}
	return c.read()
}

// read takes answers until the connection ends. It always returns an error.
func (c *connection) read() error {
	r := &c.r
	for {
		if _, err := c.readFull(r.in[:frame.Size], nil); err != nil {
			return err
		}
		if err := r.batch[0].Decode(r.in[:]); err != nil {
			return err
		}
		batch := r.batch[:1+r.batch[0].Follow]
		if len(batch) > 1 {
			rest := r.in[frame.Size : frame.Size*len(batch)]
			if _, err := c.readFull(rest, nil); err != nil {
				return err
			}
			if err := frame.DecodeBatch(rest, batch); err != nil {
				return err
			}
		}
		for i := range batch {
			if err := c.answer(&batch[i]); err != nil {
				return err
			}
		}
	}
}

// answer handles one answer with its payload.
func (c *connection) answer(h *frame.Header) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.Type == frame.GoAway {
		// A peer that stops answers all that it has carried out before it says so. One that leaves
		// for another reason may owe answers.
		c.renounced = h.Reason == frame.ReasonStopping
		return h.Refusal("peer said goodbye")
	}
	ch := c.slots[uint16(h.ID)%maxPending]
	if ch == nil || ch.id != h.ID || ch.answered {
		return fmt.Errorf("%w: answer to request %#x, which was not asked", frame.ErrFrame, h.ID)
	}
	switch {
	case h.Type == frame.Done && ch.write:
		c.resolve(ch, nil)
	case h.Type == frame.Error:
		c.resolve(ch, h.Refusal(p.Name()))
	case h.Type == frame.Data && !ch.write && h.Length == uint32(ch.size):
		return c.receive(ch, nil, h.Sum)
	default:
		return fmt.Errorf("%w: answer of type %d, %d bytes, to a request of %d bytes", frame.ErrFrame, h.Type, h.Length, ch.size)
	}
	return nil
}

// resolve ends a chunk with the peer's answer. The caller holds path.mu.
func (c *connection) resolve(ch *chunk, err error) {
	p := c.p
	c.proven = true
	p.retry.Answered()
	if c.spent() {
		c.die(nil) // First, so that it takes no more work.
	}
	if ch.state == chunkSending { // The answer overtook the writer, which ends the chunk.
		ch.answered, ch.answer = true, err
		return
	}
	c.drop(ch)
	p.settle(ch, err, false)
	p.freeChunks = append(p.freeChunks, ch)
}

// receive stores the payload of an answered Read, of which head was read already. path.mu is held,
// and released while bytes move.
func (c *connection) receive(ch *chunk, head []byte, sum uint32) error {
	p := c.p
	got := len(head)
	var err error
	if ch.op != nil {
		buf := ch.buf
		ch.state, c.moving = chunkReceiving, true
		p.mu.Unlock()
		copy(buf, head)
		got, err = c.readFull(buf[len(head):], ch)
		got += len(head)
		var bad error
		if err == nil && c.checks && frame.Checksum(buf) != sum {
			bad = errs.WithClass(errs.ClassTransientPath, p.Name(), errs.New(errs.ChecksumMismatch, "read", "%s", frame.ReasonChecksum.Info().Text))
		}
		p.mu.Lock()
		c.moving = false
		if err == nil {
			c.resolveReceived(ch, bad)
			return nil
		}
		if !errors.Is(err, errCancelled) {
			return err // reclaim ends the chunk.
		}
		ch.state = chunkWaiting
		p.settle(ch, nil, false) // Its operation has an error already.
	}
	p.mu.Unlock()
	err = c.discard(ch.size - got)
	p.mu.Lock()
	if err == nil {
		c.resolveReceived(ch, nil)
	}
	return err
}

func (c *connection) resolveReceived(ch *chunk, err error) {
	ch.state = chunkWaiting
	c.resolve(ch, err)
}

// errCancelled says that a chunk failed while it was being received.
var errCancelled = errors.New("cancelled")

// readFull fills b and returns how much it could. With a chunk it stops when that is cancelled.
func (c *connection) readFull(b []byte, ch *chunk) (int, error) {
	p := c.p
	for got, moved := 0, true; got < len(b); {
		owed, err := c.beforeRead(ch, moved)
		if err != nil {
			return got, err
		}
		p.n.stats.readCalls.Add(1)
		var n int
		if owed {
			n, err = c.in.Read(b[got:])
		} else {
			n, err = c.in.ReadAsleep(b[got:])
		}
		p.heard.Add(uint64(max(n, 0)))
		got, moved = got+n, n > 0
		if got == len(b) {
			break
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = c.quiet(n)
		}
		if err != nil {
			return got, err
		}
	}
	return len(b), nil
}

// beforeRead sets the deadline for the next read; moved says that bytes arrived just now. With
// nothing owed an old deadline may stay; quiet takes it away.
func (c *connection) beforeRead(ch *chunk, moved bool) (owed bool, err error) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch != nil && ch.cancelled {
		return false, errCancelled
	}
	if owed = c.owed(); owed {
		now := time.Now()
		if moved {
			c.quietSince = now
			c.invite()
		}
		c.armRead(now)
	}
	return owed, nil
}

// quiet judges a read deadline that passed: an error if the peer owes an answer, has been silent
// for stall_timeout, and has not even taken bytes that are on their way to it.
func (c *connection) quiet(n int) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	c.readBy = time.Time{}
	if c.hearing {
		return errNoReason
	}
	if !c.owed() {
		return c.conn.SetReadDeadline(time.Time{})
	}
	if c.readAt.Passed(&c.gauge) {
		c.quietSince = time.Now()
	}
	if limit := c.silence(); n == 0 && !c.writing && time.Since(c.quietSince) >= limit {
		return errs.WithClass(errs.ClassTransientPath, p.Name(), fmt.Errorf("%w for %s", errQuiet, limit))
	}
	return nil
}

// discard reads n bytes and throws them away.
func (c *connection) discard(n int) error {
	pool := &c.p.n.scratch
	buf := pool.Get().(*scratch)
	defer pool.Put(buf)
	for n > 0 {
		b := buf[:min(n, len(buf))]
		if _, err := c.readFull(b, nil); err != nil {
			return err
		}
		n -= len(b)
		c.p.n.stats.discarded.Add(uint64(len(b)))
	}
	return nil
}
