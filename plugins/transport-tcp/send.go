package tcp

import (
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write sends batches until the connection ends; nil when it had no work for its idle time.
func (c *connection) write() error {
	timer := time.NewTimer(c.idle)
	defer timer.Stop()
	for {
		more, err := c.next(timer)
		if !more {
			return err
		}
		err = c.send()
		c.sent(err)
		c.sending.Unlock()
		if err != nil {
			return err
		}
	}
}

// next waits for work and makes a batch of it, with sending held then. False means that the
// connection is at its end.
func (c *connection) next(timer *time.Timer) (more bool, err error) {
	p := c.p
	c.sending.Lock()
	defer func() {
		if !more {
			c.sending.Unlock()
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.up && !p.Closed() {
		now := time.Now()
		if c.w.rest {
			return true, nil
		}
		if c.fill(now) {
			p.kick() // Others may help with the rest.
			return true, nil
		}
		if !c.owed() && (now.Sub(c.lastUsed) >= c.idle || c.worn()) {
			return false, nil
		}
		c.waiting = true
		p.kick() // Goroutines that relied on this connection to take the queue may have been wrong.
		timer.Reset(c.mayRest(now))
		expects := c.owed()
		p.mu.Unlock()
		c.sending.Unlock()
		if expects && c.w.poller != nil {
			c.w.poller.Wait() // The reader sleeps, from before there was anything to wait for.
		}
		select {
		case <-c.wake:
		case <-timer.C:
		}
		c.sending.Lock()
		p.mu.Lock()
		c.waiting = false
	}
	return false, c.err
}

// mayRest is how long the writer may sleep: to the end of the connection's idle time, in which a
// Submit may have used it. The caller holds path.mu.
func (c *connection) mayRest(now time.Time) time.Duration {
	if c.owed() {
		return c.idle
	}
	return c.idle - now.Sub(c.lastUsed)
}

// fill takes from the queue what fits one batch. The caller holds path.mu.
func (c *connection) fill(now time.Time) bool {
	p, w := c.p, &c.w
	w.count, w.used = 0, 1
	payload, owed := 0, c.owed()
	if !owed {
		c.quietSince = now // Nothing was awaited before.
	}
	var shown *transport.Grant
	for w.count < frame.MaxBatch-1 && p.hasWork() && c.hasSpace() { // A grant may come before a request.
		var ch *chunk
		if len(p.again) > 0 {
			ch, p.again = p.again[0], p.again[1:]
		} else {
			o := p.queue.First()
			if o.Kind == transport.Write && payload > 0 && payload+min(len(o.Local)-o.cut, c.cut(o)) > frame.BatchBytes {
				break
			}
			ch = p.newChunk(o, c.cut(o))
		}
		slot := c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
		c.serial++
		ch.conn, ch.id = c, c.serial<<16|uint64(slot)
		c.slots[slot] = ch
		c.inflight += int64(ch.size)
		shown = c.show(ch, shown)
		h := &w.batch[w.count]
		key := ch.op.key
		*h = frame.Header{Type: frame.Read, ID: ch.id, Region: key.Region, Token: key.Token, Offset: ch.at, Length: uint32(ch.size)}
		w.chunks[w.count] = nil
		switch {
		case ch.stage == stageProof:
			h.Offset, h.Length = ch.at+uint64(ch.size)-1, 1
		case ch.write:
			ch.state = chunkSending
			h.Type = frame.Write
			w.chunks[w.count] = ch
			w.vec[w.used] = ch.buf
			w.used++
			payload += ch.size
		}
		w.count++
	}
	if w.count == 0 {
		return false
	}
	if !owed {
		c.armRead(now)
	}
	c.lastUsed, c.writing = now, true
	return true
}

// show puts the grant of a chunk before its request, unless the batch has shown it last. It returns what the batch has shown last.
func (c *connection) show(ch *chunk, shown *transport.Grant) *transport.Grant {
	g, w := ch.op.Grant.Grant(), &c.w
	if g == nil || c.p.peer.Upstream != 0 || shown != nil && (g == shown || *g == *shown) {
		return shown
	}
	w.batch[w.count], w.chunks[w.count] = frame.GrantHeader(g), nil
	w.count++
	return g
}

// send puts the batch on the wire. When it returns the payload is no longer referred to.
func (c *connection) send() error {
	w := &c.w
	if c.p.peer.Upstream != 0 {
		return c.sendUpstream()
	}
	if !w.rest {
		c.pack()
	}
	w.rest = false
	err := w.pace.WriteAll(&w.bufs, time.Time{})
	clear(w.vec[:w.used])
	return err
}

// pack makes of the batch what goes over the wire.
func (c *connection) pack() {
	w := &c.w
	if c.checks {
		for i, ch := range w.chunks[:w.count] {
			if ch != nil {
				w.batch[i].Sum = frame.Checksum(ch.buf)
			}
		}
	}
	w.vec[0] = frame.PutBatch(w.raw[:], w.batch[:w.count])
	w.bufs = w.vec[:w.used]
}

// sent hands the chunks of the batch over to the reader.
func (c *connection) sent(err error) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	c.writing, c.quietSince = false, time.Now()
	for _, ch := range c.w.chunks[:c.w.count] {
		if ch == nil {
			continue
		}
		switch {
		case ch.answered:
			c.drop(ch)
			p.settle(ch, ch.answer, false)
			p.freeChunks = append(p.freeChunks, ch)
		case err == nil:
			ch.state = chunkWaiting
			if ch.op.err != nil && !ch.op.patient { // It failed meanwhile; the answer does not matter any more.
				p.settle(ch, nil, !c.renounced)
			}
		}
	}
}

// drop takes an answered chunk out of its slot. The caller holds path.mu.
func (c *connection) drop(ch *chunk) {
	slot := uint16(ch.id)
	c.slots[slot] = nil
	c.free = append(c.free, slot)
	c.inflight -= int64(ch.size)
	if c.p.queue.First() != nil {
		c.window += int64(ch.size)
	}
	c.invite()
}

// invite wakes the writer if it can take work that waits, or is at its end. The caller holds path.mu.
func (c *connection) invite() {
	if c.waiting && (c.p.queue.First() != nil && c.hasSpace() || c.worn() && !c.owed()) {
		c.rouse()
	}
}

// armRead moves the read deadline to l.silence from now. The caller holds path.mu.
func (c *connection) armRead(now time.Time) {
	if c.hearing {
		return
	}
	if by := now.Add(c.silence()); c.readBy.Before(by.Add(-c.stall / 8)) {
		c.readBy = by
		c.readAt.Set(&c.gauge)
		_ = c.conn.SetReadDeadline(by) // Fails only on a closed connection.
	}
}
