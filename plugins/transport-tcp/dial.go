package tcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
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
	last      error // why the last attempt failed; nil after success
	gone      error // set while the process of the dialled incarnation is known to be gone
}

// failed notes a failure. The pause is drawn from its upper half, so that many paths do
// not knock at the same moment.
func (b *backoff) failed(err error, now time.Time) {
	b.pause = min(max(2*b.pause, leastPause), mostPause)
	b.notBefore = now.Add(b.pause/2 + rand.N(b.pause/2))
	b.last = err
}

// errGone marks the error of an address where another incarnation answered.
var errGone = errors.New("another incarnation")

// dial connects to the first address that answers as the peer. It fails with errGone
// when another process answered and no address led to the peer.
func (p *path) dial() (net.Conn, hello, error) {
	var failures []error
	for _, addr := range p.peer.Addrs {
		p.n.stats.dials.Add(1)
		conn, h, err := p.dialOne(addr)
		if err == nil {
			return conn, h, nil
		}
		p.n.stats.dialsFailed.Add(1)
		failures = append(failures, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, hello{}, errors.Join(failures...)
}

func (p *path) dialOne(addr string) (net.Conn, hello, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.n.cfg.DialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, hello{}, err
	}
	conn := p.n.wrap(raw)
	// Closing the path ends the exchange of hellos.
	unhook := context.AfterFunc(ctx, func() { _ = raw.Close() })
	h, err := p.greet(conn)
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
func (p *path) greet(conn net.Conn) (hello, error) {
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
	limit := time.Now().Add(cfg.DialTimeout)
	pace := pacer{conn: conn, stall: cfg.DialTimeout, stats: &p.n.stats}
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
	case h.Reason != reasonNone:
		i := h.Reason.info()
		return h, &errs.Error{Code: i.code, Class: i.class, Op: "hello", Err: errors.New(i.text)}
	case h.Low != wireVersion:
		return h, fmt.Errorf("%w: the peer picked version %d", errFrame, h.Low)
	}
	return h, conn.SetDeadline(time.Time{})
}

// noteDialFailure sets the next attempt, and fails what waits where the peer is known to
// be gone. path.mu is held.
func (p *path) noteDialFailure(err error) {
	p.retry.failed(err, time.Now())
	if !errors.Is(err, errGone) || slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.up }) {
		return
	}
	p.retry.gone = &errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: p.name,
		Err:  fmt.Errorf("the peer was restarted: %w", err),
		Hint: "fetch its endpoint and keys again and dial anew",
	}
	for i := len(p.active) - 1; i >= 0; i-- {
		if o := p.active[i]; o.err == nil {
			p.abort(o, p.retry.gone, false)
		}
	}
}
