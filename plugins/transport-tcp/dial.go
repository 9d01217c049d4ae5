package tcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// The pause between attempts to connect doubles from the least to the most.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// backoff says when a path may try to connect again. Guarded by path.mu.
type backoff struct {
	pause     time.Duration
	notBefore time.Time
	last      error     // why the last attempt failed; nil after success
	down      error     // what operations fail with at once until notBefore; nil where they may wait
	since     time.Time // when the attempts began that failed in a row, without a lane up
}

// failed notes a failure. The pause is drawn from its upper half, so that many paths do
// not knock at the same moment.
func (b *backoff) failed(err error, now time.Time) {
	b.pause = min(max(2*b.pause, leastPause), mostPause)
	b.notBefore = now.Add(b.pause/2 + rand.N(b.pause/2))
	b.last = err
}

// errGone marks the error of an address where another incarnation answered, errLeaving
// that of one where the peer answered that it is stopping.
var (
	errGone    = errors.New("another incarnation")
	errLeaving = errors.New("the peer is stopping")
)

// dialFailure is why no address led to the peer.
type dialFailure struct {
	err    error
	absent bool // nobody serves the peer's incarnation at any of its addresses now
	heard  bool // something answered at one of them
}

func (f *dialFailure) add(addr string, err error) {
	var refused *errs.Error
	f.heard = f.heard || errors.Is(err, errGone) || errors.As(err, &refused)
	f.absent = f.absent && (errors.Is(err, errGone) || errors.Is(err, errLeaving) || errors.Is(err, syscall.ECONNREFUSED))
	f.err = errors.Join(f.err, fmt.Errorf("%s: %w", addr, err))
}

// dial connects to the first address that answers as the peer, within dial_timeout: each
// address gets an equal share of what is left of it. The failure is nil on success.
func (p *path) dial() (net.Conn, hello, *dialFailure) {
	limit := time.Now().Add(p.n.cfg.DialTimeout)
	failure := &dialFailure{absent: true}
	for i, addr := range p.peer.Addrs {
		p.n.stats.dials.Add(1)
		share := time.Until(limit) / time.Duration(len(p.peer.Addrs)-i)
		conn, h, err := p.dialOne(addr, time.Now().Add(share))
		if err == nil {
			return conn, h, nil
		}
		p.n.stats.dialsFailed.Add(1)
		failure.add(addr, err)
	}
	return nil, hello{}, failure
}

func (p *path) dialOne(addr string, limit time.Time) (net.Conn, hello, error) {
	ctx, cancel := context.WithDeadline(p.ctx, limit)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, hello{}, err
	}
	raw = busypoll.Adopt(raw, p.n.cfg.BusyPoll)
	conn := p.n.wrap(raw)
	// Closing the path ends the exchange of hellos.
	unhook := context.AfterFunc(ctx, func() { _ = raw.Close() })
	h, err := hello{MaxFrame: maxSlice, Idle: upIdle}, error(nil)
	if p.peer.Upstream == 0 {
		h, err = p.greet(conn, limit)
	}
	if !unhook() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil {
		err = tune(raw, &p.n.cfg.Config)
	}
	if err != nil {
		_ = conn.Close()
		return nil, hello{}, err
	}
	return conn, h, nil
}

// greet exchanges hellos as the side that dialled.
func (p *path) greet(conn net.Conn, limit time.Time) (hello, error) {
	cfg := &p.n.cfg
	var b [headerSize]byte
	ours := hello{
		Low: wireVersion, High: wireVersion, Incarnation: p.peer.Incarnation, Session: p.n.session,
		MaxFrame: maxSlice, Idle: cfg.IdleTimeout,
	}
	if cfg.Checksum {
		ours.Flags |= flagChecksum
	}
	ours.put(b[:])
	pace := pacer{conn: conn, in: asleep{conn}, stall: cfg.DialTimeout, stats: &p.n.stats}
	out := net.Buffers{b[:]}
	if err := pace.writeAll(&out, limit); err != nil {
		return hello{}, err
	}
	if err := pace.readFull(b[:], limit); err != nil {
		return hello{}, err
	}
	var h hello
	if err := h.decode(b[:]); err != nil {
		return hello{}, err
	}
	switch {
	case h.Incarnation != p.peer.Incarnation:
		return h, errGone
	case h.Reason == reasonStopping:
		return h, errLeaving
	case h.Reason != reasonNone:
		return h, h.Reason.info().Error("hello")
	case h.Low != wireVersion:
		return h, fmt.Errorf("%w: the peer picked version %d", errFrame, h.Low)
	}
	return h, conn.SetDeadline(time.Time{})
}

// noteDialFailure sets the next attempt and fails what waits where waiting is of no use:
// the peer is not there, or could not be reached for dial_timeout. Operations submitted
// before the next attempt is due fail as well; later ones make it. path.mu is held.
func (p *path) noteDialFailure(f *dialFailure, began time.Time) {
	now := time.Now()
	r := &p.retry
	r.failed(f.err, now)
	if f.heard || r.since.IsZero() {
		r.since = began
	}
	if slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.up }) {
		r.since = time.Time{}
		return
	}
	down := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: p.Name()}
	switch {
	case errors.Is(f.err, errGone):
		down.Err, down.Hint = fmt.Errorf("the peer was restarted: %w", f.err), "fetch its endpoint and keys again and dial anew"
	case f.absent:
		down.Err, down.Hint = fmt.Errorf("the peer is not there: %w", f.err), "see whether its process runs"
	case !f.heard && now.Sub(r.since) >= p.n.cfg.DialTimeout:
		down.Err, down.Hint = fmt.Errorf("the peer cannot be reached: %w", f.err), "see whether its machine runs and the network leads to it"
	default:
		r.down = nil
		return
	}
	r.down = down
	for o := range p.Active() {
		if o.err == nil {
			p.abort(o, down, false)
		}
	}
}
