package quic

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// truster holds the identity of the node and renews it from the files.
type truster struct {
	cfg    settings
	log    *slog.Logger
	report func(plugin.Health)
	clock  func() time.Time
	id     atomic.Pointer[identity]

	mu      sync.Mutex // of look
	said    string     // the trouble that was last told
	reloads atomic.Uint64
}

func (t *truster) now() *identity { return t.id.Load() }

// look reads the files again. It reports whether whom this node trusts changed. Files that
// do not fit together, as in the middle of being replaced, leave the identity as it was.
func (t *truster) look() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.id.Load()
	if old.roots == nil {
		return false
	}
	now := t.clock()
	_, sum, err := readAll(t.cfg.CA, t.cfg.Cert, t.cfg.Key)
	changed := err == nil && sum != old.seen
	if changed {
		var id *identity
		if id, err = loadIdentity(&t.cfg.Config, now); err == nil {
			t.id.Store(id)
			t.reloads.Add(1)
			t.log.Info("certificates were replaced", "cert", t.cfg.Cert, "ends", id.leaf.NotAfter, "names", namesOf(id.leaf))
			old = id
		}
	}
	t.tell(old, err, now)
	return changed && err == nil
}

// tell says what is wrong with the certificates, once for each change.
func (t *truster) tell(id *identity, err error, now time.Time) {
	left := id.leaf.NotAfter.Sub(now)
	say, health := "", plugin.Health{State: plugin.StateOK}
	switch {
	case left <= 0:
		say = "the certificate of this node has ended; peers refuse it"
	case err != nil:
		say = "the certificate files cannot be used; going on with what was read before"
	case left < t.cfg.ExpiryWarning:
		say = "the certificate of this node ends soon"
	}
	if say != "" {
		health = plugin.Health{State: plugin.StateDegraded, Reason: say}
	}
	if say == t.said {
		return
	}
	t.said = say
	t.report(health)
	if say == "" {
		t.log.Info("the certificates are good again", "ends", id.leaf.NotAfter)
		return
	}
	t.log.Warn(say, "cert", t.cfg.Cert, "ends", id.leaf.NotAfter, "error", err, "hint", "'mooncake certs renew "+t.cfg.Cert+"' makes a new one; it is taken up without a restart")
}

// watch looks at the files until stop, and at the peers of all connections.
func (n *node) watch(stop <-chan struct{}) {
	defer n.serving.Done()
	tick := time.NewTicker(n.cfg.ReloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			n.revise(n.trust.look())
		}
	}
}

// revise closes the connections whose peers would not be let in any more: those whose
// certificate has ended, and, where whom this node trusts changed, all that it does not
// cover.
func (n *node) revise(changed bool) {
	id, now := n.trust.now(), n.clock()
	if id.roots == nil {
		return
	}
	for _, c := range n.connections() {
		state := c.quic.ConnectionState().TLS
		if len(state.PeerCertificates) == 0 {
			continue
		}
		leaf := state.PeerCertificates[0]
		if !now.After(leaf.NotAfter) && (!changed || verifyPeer(state, id.roots, c.dialled, now) == nil) {
			continue
		}
		n.stats.untrusted.Add(1)
		n.log.Warn("closing a connection whose peer is not trusted any more", "peer", c.quic.RemoteAddr().String(), "names", namesOf(leaf), "ends", leaf.NotAfter)
		_ = c.quic.CloseWithError(code(reasonTrust), reasonTrust.info().Label)
	}
}

// verifyPeer checks the chain of a connection; dialled says that this side made it.
func verifyPeer(s tls.ConnectionState, roots *x509.CertPool, dialled bool, now time.Time) error {
	usage := x509.ExtKeyUsageClientAuth
	if dialled {
		usage = x509.ExtKeyUsageServerAuth
	}
	return verifyParsed(s.PeerCertificates, roots, usage, now)
}
