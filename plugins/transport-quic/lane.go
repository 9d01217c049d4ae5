package quic

import (
	"context"
	"errors"
	"fmt"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// lane is one connection to the peer. All fields are guarded by path.mu.
type lane struct {
	p    *path
	quic *quicgo.Conn
	up   bool // connected and not yet at its end
	flow flow
	used time.Time
	// proven says that an answer came: the peer is there and lets this node in.
	proven bool
	loss   uint16 // of either direction, of 65536
}

// kick gives work that waits to lanes with room, and makes more lanes where it pays. p.mu
// is held.
func (p *path) kick() {
	for p.queue.head != nil && !p.Closed() {
		var best *lane
		for _, l := range p.lanes {
			if l.up && l.hasRoom(p.queue.head) && (best == nil || l.flow.free() > best.flow.free()) {
				best = l
			}
		}
		if best == nil {
			break
		}
		best.begin(p.cutPart(p.queue.head))
	}
	p.grow()
}

func (l *lane) hasRoom(o *op) bool {
	return l.flow.room(min(l.p.n.cfg.SliceBytes, len(o.Local)-o.cut), l.p.n.cfg.StreamsPerConnection)
}

// laneShare is how many bytes under way, and how many requests, are worth a connection of
// their own.
const (
	laneShare    = 128 << 10
	laneRequests = 16
)

// grow makes lanes for what waits and is under way: one at first, and when that has led to
// the peer, as many as are worth it at once, since each takes round trips to be made.
func (p *path) grow() {
	if p.Closed() || p.queue.head == nil && p.moving == 0 {
		return
	}
	want, up, requests := int((p.moving+p.queue.bytes+laneShare-1)/laneShare), 0, 0
	for _, l := range p.lanes {
		if l.up {
			up++
		}
		requests += l.flow.requests
	}
	want = min(max(want, (requests+laneRequests-1)/laneRequests, 1), p.most())
	if up == 0 {
		want = min(want, 1)
	}
	for len(p.lanes) < want {
		l := &lane{p: p}
		p.lanes = append(p.lanes, l)
		p.opening++
		p.work.Go(l.run)
	}
}

// begin starts a piece on the lane. p.mu is held.
func (l *lane) begin(pt *part) {
	l.flow.began(len(pt.buf))
	l.p.moving += int64(len(pt.buf))
	l.p.work.Go(func() { l.move(pt) })
}

// run is the life of a lane: it connects, and waits for the end of the connection.
func (l *lane) run() {
	p := l.p
	q, sock := l.connect()
	if q == nil {
		p.mu.Lock()
		p.forget(l)
		p.mu.Unlock()
		return
	}
	err := l.watch(q)
	p.mu.Lock()
	l.bury(err)
	p.mu.Unlock()
	sock.close()
}

// watch returns when the connection is over: nil where this side closed it for want of
// work, or because the path was closed.
func (l *lane) watch(q *quicgo.Conn) error {
	p, idle := l.p, l.p.n.cfg.IdleTimeout
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case <-q.Context().Done():
			return context.Cause(q.Context())
		case <-p.ctx.Done():
			_ = q.CloseWithError(code(reasonNone), "")
			return nil
		case <-timer.C:
		}
		p.mu.Lock()
		rest := idle - time.Since(l.used)
		if l.flow.requests == 0 && rest <= 0 {
			l.up = false
		}
		over := !l.up
		p.mu.Unlock()
		if over {
			_ = q.CloseWithError(code(reasonNone), "")
			return nil
		}
		timer.Reset(max(rest, idle/8))
	}
}

// bury takes a lane out whose connection is over. Its pieces notice by themselves. p.mu is
// held.
func (l *lane) bury(err error) {
	p := l.p
	l.up = false
	if err != nil && l.flow.requests > 0 {
		p.n.stats.connsCut.Add(1)
	}
	p.forget(l)
	if err != nil && !l.proven {
		p.failed(&dialFailure{err: err, heard: true, trust: distrust(err), absent: closedFor(err) == reasonStopping}, time.Now())
	}
	p.kick()
}

func (p *path) forget(l *lane) {
	for i, x := range p.lanes {
		if x == l {
			p.lanes = append(p.lanes[:i], p.lanes[i+1:]...)
			return
		}
	}
}

// lost is what the pieces of a connection fail with that is over, or of a stream that the
// peer gave up.
func (p *path) lost(err error) error {
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: p.Name()}
	var stream *quicgo.StreamError
	var reset *quicgo.StatelessResetError
	var refused *quicgo.TransportError
	switch r := closedFor(err); {
	case r != reasonNone:
		i := r.info()
		e.Code, e.Class, e.Err = i.Code, i.Class, fmt.Errorf("connection closed: %s", i.Text)
	case errors.As(err, &stream) && stream.Remote:
		i := reason(min(stream.ErrorCode, quicgo.StreamErrorCode(numReasons))).info()
		e.Code, e.Class, e.Err = i.Code, i.Class, fmt.Errorf("the peer gave the request up: %s", i.Text)
	case distrust(err):
		e.Class, e.Err, e.Hint = errs.ClassTransientPeer, fmt.Errorf("the peer refuses the certificate of this node: %w", err), hintDistrust
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quicgo.ConnectionRefused:
		e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("the peer takes no connections: %w", err)
	case errors.As(err, &reset):
		e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("connection lost: the peer was restarted: %w", err)
	default:
		e.Err = fmt.Errorf("connection lost: %w", err)
	}
	return e
}
