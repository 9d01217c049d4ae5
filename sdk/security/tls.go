package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// HandshakeTimeout bounds a handshake, on both sides.
const HandshakeTimeout = 10 * time.Second

// Server returns the configuration of a listener; protos are the protocols of ALPN, for clients that
// ask for one. With ModeMTLS it demands certificates that carry an identity, of any role. k is not
// nil.
func (k *Keeper) Server(protos ...string) *tls.Config {
	c := k.base()
	c.NextProtos = protos
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		set := k.Present()
		if set.Leaf == nil {
			return nil, k.CanServe()
		}
		c := k.base()
		c.NextProtos = protos
		c.Certificates = []tls.Certificate{set.Cert}
		if k.set.Mode == ModeMTLS {
			// VerifyConnection checks the chain, so that its errors say what was refused.
			c.ClientAuth, c.ClientCAs = tls.RequireAnyClientCert, set.Roots
			c.VerifyConnection = func(s tls.ConnectionState) error {
				_, err := k.peer(set, s, AsClient)
				return err
			}
		}
		return c, nil
	}
	return c
}

// Client returns the configuration for connections to host, a name or an address without a port. It
// accepts a server with a certificate of the authorities that carries an identity with one of the
// roles in want, whatever its host, or no identity and the name of the host. k is not nil.
func (k *Keeper) Client(host string, want ...Role) *tls.Config {
	c := k.base()
	c.ServerName = host
	c.InsecureSkipVerify = true // VerifyConnection checks chain and name, against the files of that moment.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert := k.Present().Cert
		return &cert, nil // Without a certificate the server learns that there is none.
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		id, err := k.peer(k.Present(), s, AsServer)
		switch {
		case errors.Is(err, ErrNoIdentity):
			return s.PeerCertificates[0].VerifyHostname(host)
		case err != nil:
			return err
		case !slices.Contains(want, id.Role):
			return fmt.Errorf("the server is %s, expected is a %s", id, strings.Join(roleStrings(want), " or "))
		}
		return nil
	}
	return c
}

func roleStrings(roles []Role) []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = string(r)
	}
	return out
}

// peer verifies the chain of a connection and returns the identity. The error is ErrNoIdentity
// only for a chain that is good.
func (k *Keeper) peer(set *Set, s tls.ConnectionState, use x509.ExtKeyUsage) (Identity, error) {
	var id Identity
	err := set.Verify(s.PeerCertificates, use, k.set.Clock())
	if err == nil {
		id, err = k.identify(set, s.PeerCertificates[0])
	}
	if errors.Is(err, ErrNoIdentity) {
		err = fmt.Errorf("%w: it is for %s", err, strings.Join(NamesOf(s.PeerCertificates[0]), ", "))
	}
	if err != nil {
		return Identity{}, &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return id, nil
}

// Peer returns the identity of the other side of a connection of this Keeper whose handshake is
// over. With ModeTLS clients have none: ErrNoIdentity.
func (k *Keeper) Peer(s tls.ConnectionState) (Identity, error) {
	if k == nil || len(s.PeerCertificates) == 0 {
		return Identity{}, ErrNoIdentity
	}
	return k.identify(k.Present(), s.PeerCertificates[0])
}

func (k *Keeper) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Time: k.set.Clock,
		SessionTicketsDisabled: true, // A peer that connects again shows its certificate again.
		// Large records: pages, and batches of calls, matter more than the first byte of a web page.
		DynamicRecordSizingDisabled: true,
	}
}

// Secure makes a TLS connection of one that was just made to addr, "host:port", and waits for the
// handshake, for HandshakeTimeout at most. It closes conn where that fails. A nil Keeper returns
// conn. A server that refuses this side's certificate says so in the first Read.
func (k *Keeper) Secure(ctx context.Context, conn net.Conn, addr string, want ...Role) (net.Conn, error) {
	if k == nil {
		return conn, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	began, wire := k.Present(), &Wire{Conn: conn}
	c := tls.Client(wire, k.Client(host, want...))
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, k.explain(addr, err)
	}
	wire.term = k.Watch(began, c.ConnectionState(), true, func(error) { _ = conn.Close() })
	return c, nil
}

func (k *Keeper) explain(addr string, err error) error {
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) {
		return errs.WithHint(fmt.Errorf("%s does not speak TLS: %w", addr, err), "security.mode must be the same in all processes of a pool; it is %s here", k.set.Mode)
	}
	return fmt.Errorf("TLS with %s: %w", addr, err)
}

// Dial is a function that connects, as net.Dialer has it.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Dialer returns a function that connects with dial and calls Secure. For a nil Keeper it is dial.
func (k *Keeper) Dialer(dial Dial, want ...Role) Dial {
	if k == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return k.Secure(ctx, conn, addr, want...)
	}
}
