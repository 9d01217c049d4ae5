package quic

import (
	"crypto/x509"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// serials are those of the certificates that the peers of a node show.
func serials(n *node) (out []string) {
	for _, c := range n.connections() {
		if certs := c.quic.ConnectionState().TLS.PeerCertificates; len(certs) > 0 {
			out = append(out, certs[0].SerialNumber.String())
		}
	}
	return out
}

func serialOf(t *testing.T, n *node) *big.Int { t.Helper(); return n.trust.Now().Leaf.SerialNumber }

// TestRotation: new files are taken up without a restart, and what runs goes on.
func TestRotation(t *testing.T) {
	ca := newAuthority(t)
	f := newFiles(t).write(t, ca, ca, nodeCert())
	cfg := f.config()
	cfg.ReloadEvery = plugin.Duration(10 * time.Millisecond)
	server, h := start(t, cfg)
	client, _ := start(t, newFiles(t).write(t, ca, ca, nodeCert()).config())
	mem, key := served(t, server, 1000)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	old := serialOf(t, server)
	require.Equal(t, []string{old.String()}, serials(client))

	require.NoError(t, os.WriteFile(f.cert, []byte("half writ"), 0o600))
	until(t, "the trouble is told", func() bool { return h.last().State == plugin.StateDegraded })
	readOK(t, p, id, mem)
	p2, id2 := dialled(t, client, server.Endpoint(), key)
	readOK(t, p2, id2, mem)
	require.Equal(t, old, serialOf(t, server), "what was read before is in use")

	f.write(t, ca, ca, nodeCert())
	until(t, "the new certificate is in use", func() bool { return serialOf(t, server).Cmp(old) != 0 })
	until(t, "all is well", func() bool { return h.last().State == plugin.StateOK })
	require.EqualValues(t, 1, server.Stats().Reloads)
	readOK(t, p, id, mem)
	require.Zero(t, server.Stats().Untrusted)
	require.EqualValues(t, 2, server.Stats().Accepted, "the earlier connections continue")
	p3, id3 := dialled(t, client, server.Endpoint(), key)
	readOK(t, p3, id3, mem)
	require.Contains(t, serials(client), serialOf(t, server).String(), "a new connection sees the new certificate")
}

// TestAnotherAuthority: when the authority is replaced, peers of the old one are put out.
func TestAnotherAuthority(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	f := newFiles(t).write(t, ca, ca, nodeCert())
	cfg := f.config()
	cfg.ReloadEvery = plugin.Duration(10 * time.Millisecond)
	server, _ := start(t, cfg)
	client, _ := start(t, newFiles(t).write(t, ca, ca, nodeCert()).config())
	mem, key := served(t, server, 1000)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	f.write(t, next, next, nodeCert())
	until(t, "the peer is put out", func() bool { return server.Stats().Untrusted == 1 && len(server.connections()) == 0 })
	until(t, "and notices", func() bool { return len(client.connections()) == 0 })
	refusedAs(t, p, id, errs.ClassTransientPeer, "certificate")
}

// TestEnds: warnings before a certificate ends, an error when it has, and peers whose
// certificate ends are put out.
func TestEnds(t *testing.T) {
	ca := newAuthority(t)
	brief := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(24 * time.Hour) }
	longer := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(100 * time.Hour) }
	cfg := newFiles(t).write(t, ca, ca, nodeCert(longer)).config()
	cfg.ReloadEvery, cfg.ExpiryWarning = plugin.Duration(24*time.Hour), plugin.Duration(72*time.Hour)
	server, h := start(t, cfg)
	client, _ := start(t, newFiles(t).write(t, ca, ca, nodeCert(brief)).config())
	mem, key := served(t, server, 1000)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	require.NotContains(t, h.log(), "ends soon")

	look := func(in time.Duration) {
		server.trust.Clock = func() time.Time { return time.Now().Add(in) }
		changed := server.trust.Look()
		require.False(t, changed)
	}
	look(30 * time.Hour)
	require.Contains(t, h.log(), "ends soon")
	require.Equal(t, plugin.StateDegraded, h.last().State)
	look(101 * time.Hour)
	require.Contains(t, h.log(), "has ended; peers refuse it")
	look(0)
	require.Equal(t, plugin.StateOK, h.last().State)

	server.clock = func() time.Time { return time.Now().Add(25 * time.Hour) }
	server.revise(false)
	require.EqualValues(t, 1, server.Stats().Untrusted)
}

// slow is a node with certificates that looks at its files only when it is told to.
func slow(t *testing.T, f files) (*node, *testHost) {
	cfg := f.config()
	cfg.ReloadEvery, cfg.ExpiryWarning = plugin.Duration(24*time.Hour), plugin.Duration(72*time.Hour)
	return start(t, cfg)
}

// TestAnotherAuthorityOfTheDialler: the side that made a connection leaves it as well when it does
// not trust the other side any more.
func TestAnotherAuthorityOfTheDialler(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	server, _ := slow(t, newFiles(t).write(t, ca, ca, nodeCert()))
	f := newFiles(t).write(t, ca, ca, nodeCert())
	client, _ := slow(t, f)
	mem, key := served(t, server, 1000)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	require.False(t, client.trust.Look(), "nothing changed")
	f.write(t, next, next, nodeCert())
	require.True(t, client.trust.Look())
	client.revise(true)
	until(t, "the connection is over", func() bool { return len(client.connections()) == 0 && len(server.connections()) == 0 })
}

// TestRotationKeepsTheRole: a certificate for one use is held against that use alone when the
// files change: as a client's by the side that was dialled, as a server's by the one that dialled.
func TestRotationKeepsTheRole(t *testing.T) {
	ca := newAuthority(t)
	only := func(use x509.ExtKeyUsage) *node {
		f := newFiles(t).write(t, ca, ca, nodeCert())
		n, _ := slow(t, f)
		f.write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{use} }))
		id, err := identity.Load(&n.cfg.Config, time.Now())
		require.ErrorContains(t, err, "peers will not accept it", "a node needs both; older ones did not")
		n.trust.Set(id)
		return n
	}
	server, client := only(x509.ExtKeyUsageServerAuth), only(x509.ExtKeyUsageClientAuth)
	mem, key := served(t, server, 1000)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	for _, n := range []*node{server, client} {
		n.revise(true)
		require.Zero(t, n.Stats().Untrusted)
	}
	readOK(t, p, id, mem)
}

// TestTroubleIsToldOnce: for each change of it, and the worst of what there is.
func TestTroubleIsToldOnce(t *testing.T) {
	ca := newAuthority(t)
	f := newFiles(t).write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(48 * time.Hour) }))
	n, h := slow(t, f)
	told := func(reports int, reason string) {
		t.Helper()
		n.trust.Look()
		n.trust.Look()
		h.mu.Lock()
		defer h.mu.Unlock()
		require.Len(t, h.health, reports)
		require.Equal(t, reason, h.health[reports-1].Reason)
	}
	told(1, "the certificate of this node ends soon")
	require.NoError(t, os.WriteFile(f.cert, []byte("half writ"), 0o600))
	told(2, "the certificate files cannot be used; going on with what was read before")
	n.trust.Clock = func() time.Time { return time.Now().Add(49 * time.Hour) }
	told(3, "the certificate of this node has ended; peers refuse it")
	f.write(t, ca, ca, nodeCert())
	told(4, "")
	require.Equal(t, plugin.StateOK, h.last().State)
	require.Contains(t, h.log(), "the certificates are good again")
	require.EqualValues(t, 1, n.Stats().Reloads)
}

// TestNoFilesNoRotation: with insecure_dev there is no file to read, and no peer to refuse.
func TestNoFilesNoRotation(t *testing.T) {
	server, h := start(t, insecure())
	client, _ := start(t, insecure())
	mem, key := served(t, server, 100)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	before := server.trust.Now()
	require.False(t, server.trust.Look())
	require.Same(t, before, server.trust.Now())
	server.clock = func() time.Time { return time.Now().AddDate(20, 0, 0) }
	server.revise(true)
	require.Zero(t, server.Stats().Untrusted)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.health)
}
