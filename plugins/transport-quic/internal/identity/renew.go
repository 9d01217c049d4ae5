package identity

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Keeper holds the identity of a node and renews it from the files.
type Keeper struct {
	Config *config.Settings
	Log    *slog.Logger
	Report func(plugin.Health)
	Clock  func() time.Time
	// Reloads counts how often the files were taken up anew.
	Reloads atomic.Uint64
	id      atomic.Pointer[Identity]

	mu   sync.Mutex // of Look
	said string     // the trouble that was last reported
}

// Now returns the present identity.
func (t *Keeper) Now() *Identity { return t.id.Load() }

// Set sets the identity.
func (t *Keeper) Set(id *Identity) { t.id.Store(id) }

// Begin sets the first identity and warns where it ends soon.
func (t *Keeper) Begin(id *Identity) {
	t.Set(id)
	if !id.Insecure() {
		t.tell(id, nil, t.Clock())
	}
}

// Look reads the files again. It reports whether the identity changed. Files that
// do not fit together, as in the middle of being replaced, leave the identity as it was.
func (t *Keeper) Look() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.id.Load()
	if old.roots == nil {
		return false
	}
	now := t.Clock()
	_, sum, err := readAll(t.Config.CA, t.Config.Cert, t.Config.Key)
	changed := err == nil && sum != old.seen
	if changed {
		var id *Identity
		if id, err = Load(&t.Config.Config, now); err == nil {
			t.id.Store(id)
			t.Reloads.Add(1)
			t.Log.Info("certificates were replaced", "cert", t.Config.Cert, "ends", id.Leaf.NotAfter, "names", NamesOf(id.Leaf))
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
	return verifyParsed(s.PeerCertificates, id.roots, usage, now)
}
