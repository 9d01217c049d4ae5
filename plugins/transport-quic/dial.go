package quic

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/udp"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// noteDial adds the error of one address to a failure.
func noteDial(f *transportkit.DialFailure, addr string, err error) {
	reason, trust := closedFor(err), distrust(err)
	absent := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, identity.ErrPin) || reason == wire.ReasonStopping
	f.Add(addr, err, absent, trust || reason != wire.ReasonNone)
	if trust {
		f.Means, f.Hint = meansDistrust, hintDistrust
	}
}

// carrier is a socket of its own for a dialled connection, so that connections are read in
// parallel.
type carrier struct {
	conn  *quicgo.Conn
	shown *x509.Certificate // of this side, before the handshake
	quic  *quicgo.Transport
	sock  *udp.Connected
}

func (c *carrier) close() {
	_ = c.quic.Close()
	_ = c.sock.Close()
}

// connect makes the connection, as long as there is work for it. It returns nil where there is
// none.
func (c *connection) connect() *carrier {
	p := c.p
	defer func() {
		p.mu.Lock()
		p.opening--
		p.mu.Unlock()
	}()
	for {
		p.mu.Lock()
		if p.Closed() || p.queue.First() == nil && p.moving == 0 {
			p.mu.Unlock()
			return nil
		}
		notBefore := p.retry.NotBefore
		p.mu.Unlock()
		if transportkit.Pause(p.ctx, notBefore) {
			continue
		}
		began := time.Now()
		sock, failure := transportkit.DialAny(p.peer.Addrs, p.n.cfg.DialTimeout, &p.n.stats.Counters, p.dialOne, noteDial)
		p.mu.Lock()
		switch {
		case failure != nil && p.Closed():
		case failure != nil:
			p.failed(failure, began)
		case p.Closed():
			p.mu.Unlock()
			_ = sock.conn.CloseWithError(code(wire.ReasonNone), "")
			sock.close()
			return nil
		default:
			c.quic, c.up, c.used = sock.conn, true, time.Now()
			c.bound(sock, p.n.clock())
			p.kick()
			p.mu.Unlock()
			return sock
		}
		p.mu.Unlock()
	}
}

// dialOne connects to one address.
func (p *path) dialOne(addr string, limit time.Time) (*carrier, error) {
	ctx, cancel := context.WithDeadline(p.ctx, limit)
	defer cancel()
	shown := p.n.trust.Now().Leaf
	cfg, err := p.n.trust.Client(&p.peer, addr)
	if err != nil {
		return nil, err
	}
	sock, err := udp.Connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	if _, err := udp.Tune(sock.UDPConn, p.n.cfg.SocketBuffer); err != nil {
		_ = sock.Close()
		return nil, err
	}
	c := &carrier{shown: shown, quic: &quicgo.Transport{Conn: sock}, sock: sock}
	c.conn, err = c.quic.Dial(ctx, sock.RemoteAddr().(*net.UDPAddr), cfg, p.n.quicConfig(false))
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// failed sets the next attempt and fails what waits where waiting is of no use: the peer is not
// there, or does not accept this node, or could not be reached for dial_timeout. Operations
// submitted before the next attempt is due fail as well; later ones make it. The caller holds p.mu.
func (p *path) failed(f *transportkit.DialFailure, began time.Time) {
	working := slices.ContainsFunc(p.conns, func(c *connection) bool { return c.up && c.proven })
	if down := p.retry.Judge(f, began, time.Now(), working); down != nil {
		p.giveUp(down)
	}
}

// stale notes that another process answers at the peer's address. The caller holds p.mu.
func (p *path) stale(err error) {
	p.failed(&transportkit.DialFailure{Err: err, Heard: true}, time.Time{})
	p.giveUp(&errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: p.Name(), Err: err,
		Hint: "fetch its endpoint and keys again and dial anew",
	})
}

// giveUp fails everything in flight, and what comes before the next attempt. The caller holds p.mu.
func (p *path) giveUp(down error) {
	p.retry.Down = down
	for o := range p.Active() {
		if o.err == nil {
			p.refuse(o, down)
		}
	}
}
