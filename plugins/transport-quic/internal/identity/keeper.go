package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// Keeper holds the identity of a node and renews it from the files.
type Keeper struct {
	Config *config.Settings
	Log    *slog.Logger
	Report func(plugin.Health)
	Clock  func() time.Time
	// Process holds the certificates of the process, where Config names none and the process has a security
	// mode; nil otherwise. Peers then also need an identity with one of the roles.
	Process *security.Keeper
	// Reloads counts how often the files were taken up anew.
	Reloads atomic.Uint64
	id      atomic.Pointer[Identity]

	mu   sync.Mutex // of Look
	said string     // the trouble that was last reported

	refusedAt atomic.Int64 // when a refused peer was last logged, in nanoseconds of Unix time
}

// Subject returns the subject of the peer of a connection as the master of the pool knows it, and the name for the log; zero values where
// the certificates are not those of the process.
func (t *Keeper) Subject(s tls.ConnectionState) (transport.Subject, string) {
	id, err := t.Process.Peer(s)
	if err != nil {
		return transport.Subject{}, ""
	}
	return grant.SubjectOf(id.URI()), id.String()
}

// Now returns the present identity.
func (t *Keeper) Now() *Identity { return t.id.Load() }

// Set sets the identity.
func (t *Keeper) Set(id *Identity) { t.id.Store(id) }

// Begin sets the first identity and warns where it ends soon.
func (t *Keeper) Begin(id *Identity) {
	t.Set(id)
	if !id.Insecure() && t.Process == nil {
		t.tell(id, nil, t.Clock())
	}
}

// Look reads the files again. It reports whether the identity changed. Files that do not fit
// together, as in the middle of being replaced, leave the identity as it was.
func (t *Keeper) Look() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Process != nil {
		changed := t.Process.Look()
		if changed {
			t.Set(Of(t.Process.Present()))
			t.Reloads.Add(1)
		}
		return changed
	}
	old := t.id.Load()
	if old.set == nil {
		return false
	}
	now := t.Clock()
	sum, err := files(&t.Config.Config).Sum()
	changed := err == nil && sum != old.set.Digest
	if changed {
		var id *Identity
		if id, err = Load(&t.Config.Config, now); err == nil {
			t.id.Store(id)
			t.Reloads.Add(1)
			t.Log.Info("certificates were replaced", "cert", t.Config.Cert, "ends", id.Leaf.NotAfter, "names", security.NamesOf(id.Leaf))
			old = id
		}
	}
	t.tell(old, err, now)
	return changed && err == nil
}

// tell reports trouble with the certificates, once for each change.
func (t *Keeper) tell(id *Identity, err error, now time.Time) {
	left := id.Leaf.NotAfter.Sub(now)
	say, health := "", plugin.Health{State: plugin.StateOK}
	switch {
	case left <= 0:
		say = "the certificate of this node has ended; peers refuse it"
	case err != nil:
		say = "the certificate files cannot be used; going on with what was read before"
	case left < t.Config.ExpiryWarning:
		say = "the certificate of this node ends soon"
	}
	if say != "" {
		health = plugin.Health{State: plugin.StateDegraded, Reason: say}
	}
	if say == t.said {
		return
	}
	t.said = say
	t.Report(health)
	if say == "" {
		t.Log.Info("the certificates are good again", "ends", id.Leaf.NotAfter)
		return
	}
	t.Log.Warn(say, "cert", t.Config.Cert, "ends", id.Leaf.NotAfter, "error", err, "hint", "'mooncake certs renew "+t.Config.Cert+"' makes a new one; it is taken up without a restart")
}

// Verify checks the chain of a connection against the authorities; dialled says that this side made
// the connection.
func (id *Identity) Verify(s tls.ConnectionState, dialled bool, now time.Time) error {
	usage := x509.ExtKeyUsageClientAuth
	if dialled {
		usage = x509.ExtKeyUsageServerAuth
	}
	return id.set.Verify(s.PeerCertificates, usage, now)
}

// Server is the configuration of the listener: each handshake sees the identity of that moment.
func (t *Keeper) Server() *tls.Config {
	if t.Process != nil {
		return t.logging(t.Process.ServerFor(servedRoles, wire.ALPN))
	}
	c := t.base()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		id := t.Now()
		c := t.base()
		c.Certificates = []tls.Certificate{id.Cert}
		if id.set == nil {
			c.ClientAuth = tls.RequireAnyClientCert
			return c, nil
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, id.set.Roots
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return allowed(s.PeerCertificates[0], t.Config.PeerNames, "")
		}
		return c, nil
	}
	return c
}

// ErrMixed says that no certificate would be accepted.
var ErrMixed = errors.New("one of the two nodes runs with insecure_dev")

// ErrPin says that another process answers than the one whose endpoint was dialled.
var ErrPin = errors.New("the certificate is not the one of the endpoint")

// Client is the configuration for one connection to addr, which is of peer.
func (t *Keeper) Client(peer *wire.Endpoint, addr string) (*tls.Config, error) {
	id := t.Now()
	c := t.base()
	c.Certificates = []tls.Certificate{id.Cert}
	host := hostOf(addr)
	c.ServerName = host
	switch insecure := peer.Pin != (wire.Fingerprint{}); {
	case !insecure && t.Process != nil:
		return t.processClient(host), nil
	case insecure && id.set != nil:
		return nil, fmt.Errorf("%w: the peer does, this node does not", ErrMixed)
	case !insecure && id.set == nil:
		return nil, fmt.Errorf("%w: this node does, the peer does not", ErrMixed)
	case insecure:
		c.InsecureSkipVerify = true // VerifyConnection compares the whole certificate.
		pin := peer.Pin
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if sha256.Sum256(s.PeerCertificates[0].Raw) != pin {
				return ErrPin
			}
			return nil
		}
		return c, nil
	}
	c.RootCAs = id.set.Roots
	if len(t.Config.PeerNames) > 0 {
		// A peer that peer_names allow may answer anywhere; crypto/tls cannot check one of several
		// names.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if err := id.Verify(s, true, t.Clock()); err != nil {
				return err
			}
			return allowed(s.PeerCertificates[0], t.Config.PeerNames, host)
		}
	}
	return c, nil
}

// logging logs the peers whose certificates c refuses, one a minute.
func (t *Keeper) logging(c *tls.Config) *tls.Config {
	choose := c.GetConfigForClient
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := choose(h)
		if err != nil || c.VerifyConnection == nil {
			return c, err
		}
		verify, peer := c.VerifyConnection, h.Conn.RemoteAddr().String()
		c.VerifyConnection = func(s tls.ConnectionState) error {
			err := verify(s)
			last, now := t.refusedAt.Load(), time.Now().UnixNano()
			if err != nil && now-last >= int64(time.Minute) && t.refusedAt.CompareAndSwap(last, now) {
				t.Log.Warn("a peer was refused for its certificate; such lines appear once a minute at most", "peer", peer, "error", err)
			}
			return err
		}
		return c, nil
	}
	return c
}

// processClient is the configuration for a connection to a peer of the process's pool.
func (t *Keeper) processClient(host string) *tls.Config {
	c := t.Process.Client(host, dialledRoles...)
	c.NextProtos = []string{wire.ALPN}
	return c
}

var (
	// servedRoles are those of processes that move objects.
	servedRoles = []security.Role{security.RoleStore, security.RoleClient, security.RoleMaster}
	// dialledRoles are those of processes that have memory in the pool.
	dialledRoles = []security.Role{security.RoleStore, security.RoleClient}
)

func (t *Keeper) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{wire.ALPN}, Time: t.Clock,
		SessionTicketsDisabled: true, // A peer that connects again shows its certificate again.
	}
}
