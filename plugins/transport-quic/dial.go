package quic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/udp"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
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
	last      error     // why the last attempt failed; nil after success
	down      error     // what operations fail with at once until notBefore; nil where they may wait
	since     time.Time // when the attempts began that failed in a row, without an answer in between
}

// errStale marks an answer of another incarnation.
var errStale = errors.New("the peer was restarted")

// dialFailure is why no address led to the peer.
type dialFailure struct {
	err    error
	absent bool // no process serves the peer's incarnation at any of its addresses now
	heard  bool // something answered at one of them
	trust  bool // one side does not accept the certificate of the other
}

func (f *dialFailure) add(addr string, err error) {
	refused := errors.Is(err, syscall.ECONNREFUSED)
	f.trust = f.trust || distrust(err)
	f.heard = f.heard || f.trust || closedFor(err) != wire.ReasonNone
	f.absent = f.absent && (refused || errors.Is(err, identity.ErrPin) || closedFor(err) == wire.ReasonStopping)
	f.err = errors.Join(f.err, fmt.Errorf("%s: %w", addr, err))
}

// distrust reports whether a TLS handshake failed: this side refused the peer's
// certificate, or the peer this side's.
func distrust(err error) bool {
	var t *quicgo.TransportError
	return errors.Is(err, identity.ErrName) || errors.Is(err, identity.ErrMixed) || errors.As(err, &t) && t.ErrorCode.IsCryptoError()
}

const hintDistrust = "both nodes need certificates of one authority, that have not ended, for the names or addresses by which they are dialled " +
	"(or peer_names); 'mooncake certs show FILE' tells what a file holds"

// carrier is a socket of its own for a dialled connection, so that connections are read in
// parallel.
type carrier struct {
	quic *quicgo.Transport
	sock *udp.Connected
}

func (c *carrier) close() {
	_ = c.quic.Close()
	_ = c.sock.Close()
}

// connect makes the connection of a connection, as long as there is work for it.
func (l *clientConn) connect() (*quicgo.Conn, *carrier) {
	p := l.p
	defer func() {
		p.mu.Lock()
		p.opening--
		p.mu.Unlock()
	}()
	for {
		p.mu.Lock()
		if p.Closed() || p.queue.head == nil && p.moving == 0 {
			p.mu.Unlock()
			return nil, nil
		}
		pause := time.Until(p.retry.notBefore)
		p.mu.Unlock()
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-p.ctx.Done():
				timer.Stop()
			}
			continue
		}
		began := time.Now()
		q, c, failure := p.dial()
		p.mu.Lock()
		switch {
		case failure != nil && p.Closed():
		case failure != nil:
			if p.retry.since.IsZero() || failure.heard {
				p.retry.since = began
			}
			p.failed(failure, time.Now())
		case p.Closed():
			p.mu.Unlock()
			_ = q.CloseWithError(code(wire.ReasonNone), "")
			c.close()
			return nil, nil
		default:
			l.quic, l.up, l.used = q, true, time.Now()
			p.kick()
			p.mu.Unlock()
			return q, c
		}
		p.mu.Unlock()
	}
}

// dial connects to the first address that answers, within dial_timeout: each address gets
// an equal share of what is left of it. The failure is nil on success.
func (p *path) dial() (*quicgo.Conn, *carrier, *dialFailure) {
	limit := time.Now().Add(p.n.cfg.DialTimeout)
	failure := &dialFailure{absent: true}
	for i, addr := range p.peer.Addrs {
		p.n.stats.dials.Add(1)
		share := time.Until(limit) / time.Duration(len(p.peer.Addrs)-i)
		q, c, err := p.dialOne(addr, time.Now().Add(share))
		if err == nil {
			return q, c, nil
		}
		p.n.stats.dialsFailed.Add(1)
		failure.add(addr, err)
	}
	return nil, nil, failure
}

func (p *path) dialOne(addr string, limit time.Time) (*quicgo.Conn, *carrier, error) {
	ctx, cancel := context.WithDeadline(p.ctx, limit)
	defer cancel()
	cfg, err := p.n.trust.Client(&p.peer, addr)
	if err != nil {
		return nil, nil, err
	}
	sock, err := udp.Connect(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	if _, err := udp.Tune(sock.UDPConn, p.n.cfg.SocketBuffer); err != nil {
		_ = sock.Close()
		return nil, nil, err
	}
	c := &carrier{quic: &quicgo.Transport{Conn: sock}, sock: sock}
	q, err := c.quic.Dial(ctx, sock.RemoteAddr().(*net.UDPAddr), cfg, p.n.quicConfig(false))
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return q, c, nil
}

// failed sets the next attempt and fails what waits where waiting is of no use: the peer is not
// there, or does not accept this node, or could not be reached for dial_timeout. Operations
// submitted before the next attempt is due fail as well; later ones make it. p.mu is held.
func (p *path) failed(f *dialFailure, now time.Time) {
	r := &p.retry
	// Drawn from the upper half, so that many paths do not connect at the same moment.
	r.pause = min(max(2*r.pause, leastPause), mostPause)
	r.notBefore = now.Add(r.pause/2 + rand.N(r.pause/2))
	r.last = f.err
	if slices.ContainsFunc(p.conns, func(l *clientConn) bool { return l.up && l.proven }) {
		r.since = time.Time{}
		return
	}
	down := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: p.Name()}
	switch {
	case f.trust:
		down.Err, down.Hint = fmt.Errorf("the two nodes do not accept each other's certificates: %w", f.err), hintDistrust
	case f.absent:
		down.Err, down.Hint = fmt.Errorf("the peer is not there: %w", f.err), "see whether its process runs"
	case !f.heard && now.Sub(r.since) >= p.n.cfg.DialTimeout:
		down.Err, down.Hint = fmt.Errorf("the peer cannot be reached: %w", f.err), "see whether its machine runs and the network lets UDP through to it"
	default:
		r.down = nil
		return
	}
	p.giveUp(down)
}

// stale notes that another process answers at the peer's address. p.mu is held.
func (p *path) stale(err error) {
	p.failed(&dialFailure{err: err, heard: true}, time.Now())
	p.giveUp(&errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: p.Name(), Err: err,
		Hint: "fetch its endpoint and keys again and dial anew",
	})
}

// giveUp fails everything in flight, and what comes before the next attempt. p.mu is held.
func (p *path) giveUp(down error) {
	p.retry.down = down
	for o := range p.Active() {
		if o.err == nil {
			p.refuse(o, down)
		}
	}
}
