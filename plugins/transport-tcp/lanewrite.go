package tcp

import (
	"net"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// laneWriter is the state of the goroutine that sends and holds lane.sending.
type laneWriter struct {
	pace    pacer
	lookout *busypoll.Lookout // nil for what is no socket
	train   [maxTrain]header
	parts   [maxTrain]*part // of the train; nil for a Read, which the writer must not touch
	count   int
	raw     [maxTrain * headerSize]byte
	vec     [maxTrain + 1][]byte
	used    int // of vec
	bufs    net.Buffers
	rest    bool // bufs is what a Submit left of the train
}

// write sends trains until the lane ends; nil when it had no work for its idle time.
func (l *lane) write() error {
	timer := time.NewTimer(l.idle)
	defer timer.Stop()
	for {
		more, err := l.next(timer)
		if !more {
			return err
		}
		err = l.send()
		l.sent(err)
		l.sending.Unlock()
		if err != nil {
			return err
		}
	}
}

// next waits for work and makes a train of it, with sending held then. False means that the lane is
// at its end.
func (l *lane) next(timer *time.Timer) (more bool, err error) {
	p := l.p
	l.sending.Lock()
	defer func() {
		if !more {
			l.sending.Unlock()
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	for l.up && !p.Closed() {
		now := time.Now()
		if l.w.rest {
			return true, nil
		}
		if l.fill(now) {
			p.kick() // Others may help with the rest.
			return true, nil
		}
		if !l.owed() && now.Sub(l.lastUsed) >= l.idle {
			return false, nil
		}
		l.parked = true
		p.kick() // Goroutines that relied on this lane to take the queue may have been wrong.
		timer.Reset(l.mayRest(now))
		expects := l.owed()
		p.mu.Unlock()
		l.sending.Unlock()
		if expects && l.w.lookout != nil {
			l.w.lookout.Wait() // The reader sleeps, from before there was anything to wait for.
		}
		select {
		case <-l.wake:
		case <-timer.C:
		}
		l.sending.Lock()
		p.mu.Lock()
		l.parked = false
	}
	return false, l.err
}

// mayRest is how long the writer may sleep: to the end of the lane's idle time, in which a Submit
// may have used it. path.mu is held.
func (l *lane) mayRest(now time.Time) time.Duration {
	if l.owed() {
		return l.idle
	}
	return l.idle - now.Sub(l.lastUsed)
}

// fill takes from the queue what fits one train. path.mu is held.
func (l *lane) fill(now time.Time) bool {
	p, w := l.p, &l.w
	w.count, w.used = 0, 1
	payload := 0
	if !l.owed() {
		l.quietSince = now // Nothing was awaited before.
	}
	for w.count < maxTrain && p.queue.head != nil && l.hasRoom() {
		o := p.queue.head
		if o.Kind == transport.Write && payload > 0 && payload+min(len(o.Local)-o.cut, l.cut(o)) > trainBytes {
			break
		}
		at := o.Offset + uint64(o.cut)
		pt := p.newPart(o, l.cut(o))
		slot := l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
		l.serial++
		pt.lane, pt.id = l, l.serial<<16|uint64(slot)
		l.slots[slot] = pt
		l.inflight += int64(pt.size)
		h := &w.train[w.count]
		*h = header{Type: frameRead, ID: pt.id, Region: o.key.Region, Token: o.key.Token, Offset: at, Length: uint32(pt.size)}
		w.parts[w.count] = nil
		if pt.write {
			h.Type = frameWrite
			w.parts[w.count] = pt
			w.vec[w.used] = pt.buf
			w.used++
			payload += pt.size
		}
		w.count++
	}
	if w.count == 0 {
		return false
	}
	if len(l.free)+w.count == l.depth {
		l.armRead(now)
	}
	l.lastUsed, l.writing = now, true
	return true
}

// send puts the train on the wire. When it returns the payload is no longer referred to.
func (l *lane) send() error {
	w := &l.w
	if l.p.peer.Upstream != 0 {
		return l.sendUpstream()
	}
	if !w.rest {
		l.pack()
	}
	w.rest = false
	err := w.pace.writeAll(&w.bufs, time.Time{})
	clear(w.vec[:w.used])
	return err
}

// pack makes of the train what goes over the wire.
func (l *lane) pack() {
	w := &l.w
	if l.checks {
		for i, pt := range w.parts[:w.count] {
			if pt != nil {
				w.train[i].Sum = checksum(pt.buf)
			}
		}
	}
	w.vec[0] = putTrain(w.raw[:], w.train[:w.count])
	w.bufs = w.vec[:w.used]
}

// sent hands the parts of the train over to the reader.
func (l *lane) sent(err error) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.writing, l.quietSince = false, time.Now()
	for _, pt := range l.w.parts[:l.w.count] {
		if pt == nil {
			continue
		}
		switch {
		case pt.answered:
			l.drop(pt)
			p.settle(pt, pt.answer, false)
			p.freeParts = append(p.freeParts, pt)
		case err == nil:
			pt.state = partWaiting
			if pt.op.err != nil && !pt.op.patient { // It failed meanwhile; the answer does not matter any more.
				p.settle(pt, nil, !l.renounced)
			}
		}
	}
}

// drop takes an answered part out of its slot. path.mu is held.
func (l *lane) drop(pt *part) {
	slot := uint16(pt.id)
	l.slots[slot] = nil
	l.free = append(l.free, slot)
	l.inflight -= int64(pt.size)
	if l.p.queue.head != nil {
		l.window += int64(pt.size)
	}
	l.invite()
}

// invite wakes the writer if it can take work that waits. path.mu is held.
func (l *lane) invite() {
	if l.parked && l.p.queue.head != nil && l.hasRoom() {
		l.rouse()
	}
}

// armRead moves the read deadline to l.silence from now. path.mu is held.
func (l *lane) armRead(now time.Time) {
	if l.hearing {
		return
	}
	if by := now.Add(l.silence()); l.readBy.Before(by.Add(-l.stall / 8)) {
		l.readBy = by
		l.readAt.set(&l.gauge)
		_ = l.conn.SetReadDeadline(by) // Fails only on a closed connection.
	}
}
