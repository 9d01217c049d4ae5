package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// With a security mode that is not off, the native protocol runs inside TLS 1.3. Both sides check the role
// of the other one. Without TLS only upstream's protocol is served, and only where the settings of the
// transport ask for it.

var (
	// servedRoles are those of processes that move objects.
	servedRoles = []security.Role{security.RoleStore, security.RoleClient, security.RoleMaster}
	// dialledRoles are those of processes that have memory in the pool.
	dialledRoles = []security.Role{security.RoleStore, security.RoleClient}
)

// recordHandshake is the first byte of TLS.
const recordHandshake = 0x16

// maxCarried is how many bytes go over one connection with TLS. Then the side that dialled makes another
// one: keys of AES-GCM are good for 2^24.5 records (RFC 8446, section 5.5), and crypto/tls does not renew them.
const maxCarried = 128 << 30

var (
	// errDistrust marks the error of a peer that this side does not accept, errRefused that of one that
	// does not accept this side.
	errDistrust = errors.New("this process does not trust the peer")
	errRefused  = errors.New("the peer does not trust this process")
	// errNoTLS marks that of a peer that does not use TLS.
	errNoTLS = errors.New("the peer speaks plaintext")
)

const (
	hintTrust = "see the log of the peer; both sides need certificates of an authority in security.ca, with the identity of a store or client: 'mooncake certs show FILE'"
	hintNoTLS = "this process demands TLS: set security.mode there, the same in all processes of a pool"
	hintTLS   = "set security.mode here, the same in all processes of a pool"
)

// means returns what the error of an attempt to connect means, and what to do about it.
func means(err error) (text, hint string) {
	switch {
	case errors.Is(err, errNoTLS):
		return "the peer speaks plaintext", hintNoTLS
	case errors.Is(err, errDistrust):
		return "the peer is not trusted", hintTrust
	case errors.Is(err, errRefused):
		return "the peer refused this process", hintTrust
	}
	return "", ""
}

// secure puts TLS over a connection that this side made to addr; nil with mode off.
func (p *path) secure(conn net.Conn, addr string, limit time.Time) (*socket.Layer, error) {
	if !p.n.keeper.On() || p.peer.Upstream != 0 {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cfg := p.n.keeper.Client(host, dialledRoles...)
	verify := cfg.VerifyConnection
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return errors.Join(errDistrust, err)
		}
		return nil
	}
	l := socket.ClientLayer(conn, socket.SourceOf(conn, p.n.cfg.BusyPoll), cfg)
	if err := l.Handshake(limit); err != nil {
		return nil, explain(err)
	}
	return l, nil
}

// explain adds to the error of a handshake, or of the first read after it, what it means.
func explain(err error) error {
	var plain tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &plain):
		return errors.Join(errNoTLS, err)
	case errors.As(err, &op) && op.Op == "remote error":
		return errors.Join(errRefused, err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the peer closed the connection in the TLS handshake; it may speak plaintext, or not trust this process: %w", err)
	}
	return err
}

// checkMode reports an endpoint whose node does not do what the security mode of this one demands.
func (n *node) checkMode(e *frame.Endpoint) error {
	addr := e.Addrs[0]
	switch {
	case e.Upstream != 0:
		return n.checkUpstream("transport/tcp: dial", addr)
	case n.keeper.On() && !e.TLS:
		return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.NotSupported, "transport/tcp: dial", "%s speaks plaintext, and security.mode is %s here", addr, n.keeper.Mode())), hintNoTLS)
	case !n.keeper.On() && e.TLS:
		return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.NotSupported, "transport/tcp: dial", "%s takes TLS only, and security.mode is off here", addr)), hintTLS)
	}
	return nil
}

// greetTLS takes over a connection whose first bytes are in c.in. It reports whether the peer is
// trusted; then c.in has the first bytes of what it says inside TLS.
func (c *serverConn) greetTLS(limit time.Time, mark []byte) bool {
	n := c.n
	first := append([]byte(nil), mark...)
	l := socket.ServerLayer(c.conn, c.pace.In, first, n.serverTLS)
	err := l.Handshake(limit)
	if err == nil {
		c.pace.ReadBy = time.Time{} // The handshake had deadlines of its own.
		c.pace.Secure(l)
		return c.pace.ReadFull(mark, limit) == nil
	}
	n.stats.untrusted.Add(1)
	n.turnedAway.tell(n.log, "a peer was refused: the TLS handshake failed; it needs a certificate of an authority in security.ca, with the identity of a store, client or master",
		c.conn.RemoteAddr(), "error", err)
	c.linger(lingerTime, lingerBytes) // TLS has told the peer why.
	return false
}

// turnAway notes a connection that began without TLS.
func (c *serverConn) turnAway() {
	n := c.n
	n.stats.untrusted.Add(1)
	n.plain.tell(n.log, "a connection without TLS was refused: set security.mode where it comes from, the same in all processes of a pool",
		c.conn.RemoteAddr(), "security", string(n.keeper.Mode()))
}

// secure takes the certificates of the process, nil with security mode off.
func (n *node) secure(k *security.Keeper, log *slog.Logger) {
	if n.keeper = k; k == nil {
		return
	}
	n.serverTLS = k.ServerFor(servedRoles)
	asked := n.cfg.Config.Upstream != nil && *n.cfg.Config.Upstream
	if n.cfg.Upstream = asked; asked {
		log.Warn("upstream's protocol is served in plaintext although security.mode is not off, since the settings of the transport say upstream: true; any program that reaches the port reads and writes every region that is open to peers",
			"security", string(k.Mode()))
	}
	if err := k.CanServe(); err != nil {
		log.Warn("this process has no certificate, so that no peer reaches its memory", "error", err)
	}
}

// keep has the certificates follow their files until the node stops.
func (n *node) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.keeper.Run(ctx)
	}()
	n.unkeep = func() { cancel(); <-done }
}

// notice is a line of the log that peers cause, and that appears at most once a minute.
type notice struct {
	mu   sync.Mutex
	last time.Time
	more int // since then
}

const noticeEvery = time.Minute

func (o *notice) tell(log *slog.Logger, text string, peer net.Addr, attrs ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.last.IsZero() || now.Sub(o.last) >= noticeEvery {
		log.Warn(text, append([]any{"peer", fmt.Sprint(peer), "more_since_last_line", o.more}, attrs...)...)
		o.last, o.more = now, 0
		return
	}
	o.more++
}
