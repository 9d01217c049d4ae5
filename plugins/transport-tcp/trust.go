package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
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

// trust is what a node demands of its peers. Its methods are those of a node without a security mode until
// open.
type trust struct {
	keeper *security.Keeper // nil with mode off
	server *tls.Config
	stop   func()
	log    *slog.Logger

	refused, plain, ended transportkit.Seldom
	grants                transportkit.Seldom // by identity
}

// open reads the certificates of the process, which follow their files until close.
func (t *trust) open(host plugin.Host) error {
	k, err := security.OpenFor(host)
	if err != nil {
		return err
	}
	t.log = host.Logger()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	t.stop = func() { cancel(); <-done }
	if t.keeper = k; k == nil {
		return nil
	}
	t.server = k.ServerFor(servedRoles)
	if err := k.CanServe(); err != nil {
		t.log.Warn("this process has no certificate, so that no peer reaches its memory", "error", err)
	}
	return nil
}

// close ends what open began.
func (t *trust) close() { t.stop() }

// on reports whether connections need TLS.
func (t *trust) on() bool { return t.keeper.On() }

// mode returns the security mode.
func (t *trust) mode() string { return string(t.keeper.Mode()) }

// client puts TLS over a connection that this side made to addr; nil with mode off.
func (t *trust) client(conn net.Conn, in socket.Source, addr string, limit time.Time) (*socket.Layer, error) {
	if !t.on() {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cfg := t.keeper.Client(host, dialledRoles...)
	verify := cfg.VerifyConnection
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return errors.Join(errDistrust, err)
		}
		return nil
	}
	l := socket.ClientLayer(conn, in, cfg)
	l.Began = t.keeper.Present()
	if err := l.Handshake(limit); err != nil {
		return nil, explain(err)
	}
	return l, nil
}

// accept puts TLS over a connection that a peer made and that began with first. It logs a peer that it
// refuses.
func (t *trust) accept(conn net.Conn, in socket.Source, first []byte, limit time.Time) (*socket.Layer, error) {
	l := socket.ServerLayer(conn, in, append([]byte(nil), first...), t.server)
	l.Began = t.keeper.Present()
	if err := l.Handshake(limit); err != nil {
		t.tell(&t.refused, "", "a peer was refused: the TLS handshake failed; it needs a certificate of an authority in security.ca, with the identity of a store, client or master",
			conn.RemoteAddr(), "error", err)
		return nil, err
	}
	return l, nil
}

// bound bounds the life of a connection, whose end is called where it lasts too long. It returns nil without TLS.
func (t *trust) bound(l *socket.Layer, isDialled bool, end func(why error)) *security.Term {
	if l == nil {
		return nil
	}
	return t.keeper.Watch(l.Began, l.State(), isDialled, end)
}

// subject returns who the peer of a connection with TLS is, and the name for the log; with security.mode tls it is not known.
func (t *trust) subject(l *socket.Layer) (transport.Subject, string) {
	id, err := t.keeper.Peer(l.State())
	if err != nil {
		return transport.Subject{}, ""
	}
	return grant.SubjectOf(id.URI()), id.String()
}

// tellGrant logs a peer whose operation was refused for its grant.
func (t *trust) tellGrant(why frame.Reason, peer net.Addr, name string) {
	if why == frame.ReasonGrantOver {
		return // It happens to good clients that are late.
	}
	t.tell(&t.grants, name, "an operation of a peer was refused: the master did not allow it", peer, "identity", name, "reason", why.Info().Label)
}

// turnAway logs a peer that began without TLS.
func (t *trust) turnAway(conn net.Conn) {
	t.tell(&t.plain, "", "a connection without TLS was refused: set security.mode where it comes from, the same in all processes of a pool",
		conn.RemoteAddr(), "security", t.mode())
}

// check reports an endpoint whose node does not do what the security mode of this one demands.
func (t *trust) check(e *frame.Endpoint) error {
	const op = "transport/tcp: dial"
	switch addr := e.Addrs[0]; {
	case t.on() && !e.TLS:
		return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.NotSupported, op, "%s speaks plaintext, and security.mode is %s here", addr, t.mode())), hintNoTLS)
	case !t.on() && e.TLS:
		return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.NotSupported, op, "%s takes TLS only, and security.mode is off here", addr)), hintTLS)
	}
	return nil
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

// tell logs a line that peers cause, at most once a minute for each of those who are told apart.
func (t *trust) tell(seldom *transportkit.Seldom, who, text string, peer net.Addr, attrs ...any) {
	if more, now := seldom.Tell(who, time.Now()); now {
		t.log.Warn(text, append([]any{"peer", fmt.Sprint(peer), "more_since_last_line", more}, attrs...)...)
	}
}
