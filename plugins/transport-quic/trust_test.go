package quic

import (
	"context"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestStartSaysWhatIsWrongWithCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good := func(t *testing.T) files { return newFiles(t).write(t, ca, ca, nodeCert()) }
	for name, c := range map[string]struct {
		config func(*testing.T) *Config
		says   []string
	}{
		"none":    {func(*testing.T) *Config { c := insecure(); c.InsecureDev = false; return c }, []string{"no certificates are configured", "mooncake certs init"}},
		"missing": {func(t *testing.T) *Config { f := good(t); require.NoError(t, os.Remove(f.key)); return f.config() }, []string{"key.pem", "no such file"}},
		"not PEM": {func(t *testing.T) *Config {
			f := good(t)
			require.NoError(t, os.WriteFile(f.ca, []byte("hello"), 0o600))
			return f.config()
		}, []string{"ca.pem", "no certificate in PEM"}},
		"key of another": {func(t *testing.T) *Config { f := good(t); f.key = good(t).key; return f.config() }, []string{"belong together"}},
		"expired": {func(t *testing.T) *Config {
			return newFiles(t).write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })).config()
		}, []string{"the certificate ended at", "certs renew"}},
		"not yet": {func(t *testing.T) *Config {
			return newFiles(t).write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })).config()
		}, []string{"begins at", "clock"}},
		"another authority": {func(t *testing.T) *Config { return newFiles(t).write(t, ca, other, nodeCert()).config() }, []string{"peers will not accept it", "signed by the authority"}},
		"server only": {func(t *testing.T) *Config {
			return newFiles(t).write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] })).config()
		}, []string{"as a client's"}},
		"client only": {func(t *testing.T) *Config {
			return newFiles(t).write(t, ca, ca, nodeCert(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] })).config()
		}, []string{"as a server's"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := c.config(t)
			require.NoError(t, plugin.Validate(cfg), "the files are looked at by Start")
			err := newNode(*cfg).Start(context.Background(), &testHost{})
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
			require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
		})
	}
}

// TestWhoMayTalkToWhom: operations go through only where both sides accept the other.
func TestWhoMayTalkToWhom(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	named := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, []net.IP{net.IPv4(127, 0, 0, 1)} }
	}
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }
	type side struct {
		trusts, by *authority
		cert       *x509.Certificate
		peers      []string
	}
	usual := func(change ...func(*x509.Certificate)) side { return side{ca, ca, nodeCert(change...), nil} }
	with := func(s side, peers ...string) side { s.peers = peers; return s }
	for name, c := range map[string]struct {
		server, client side
		says           string // empty where it works
	}{
		"good":                        {usual(), usual(), ""},
		"client of a foreign CA":      {usual(), side{ca, other, nodeCert(), nil}, "certificate"},
		"server of a foreign CA":      {side{ca, other, nodeCert(), nil}, usual(), "certificate"},
		"client has ended":            {usual(), usual(ended), "certificate"},
		"server has ended":            {usual(ended), usual(), "certificate"},
		"server for another host":     {usual(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 9)} }), usual(), "10.0.0.9"},
		"names, both good":            {with(usual(named("a.pool")), "b.pool"), with(usual(named("b.pool")), "a.pool"), ""},
		"names, one label":            {with(usual(named("a.pool")), "*.pool"), with(usual(named("b.pool")), "*.pool"), ""},
		"names, two labels":           {usual(named("a.x.pool")), with(usual(), "*.pool"), "expected is *.pool"},
		"client with another name":    {with(usual(named("a.pool")), "b.pool"), usual(named("c.pool")), "certificate"},
		"server with another name":    {usual(named("a.pool")), with(usual(), "b.pool"), "it is for a.pool"},
		"names do not replace the CA": {side{ca, other, nodeCert(named("a.pool")), nil}, with(usual(), "a.pool"), "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(s side) *node {
				f := newFiles(t).write(t, s.trusts, ca, nodeCert()) // To start with.
				cfg := f.config()
				cfg.PeerNames = s.peers
				n, _ := start(t, cfg)
				f.write(t, s.trusts, s.by, s.cert)
				id, _ := identity.Load(cfg, time.Now()) // Also one that the node would refuse to use.
				n.trust.Set(id)
				return n
			}
			server, client := build(c.server), build(c.client)
			mem, key := served(t, server, 100)
			p, id := dialled(t, client, server.Endpoint(), key)
			if c.says == "" {
				readOK(t, p, id, mem)
				return
			}
			refusedAs(t, p, id, errs.ClassTransientPeer, c.says)
			w := one(t, p, transport.Op{ID: 3, Kind: transport.Write, Local: make([]byte, 8), Remote: id})
			require.Equal(t, transport.Failed, w.Status, "nothing is indeterminate that was never let in: %v", w.Err)
			require.Zero(t, server.Stats().ServedReads)
			require.Zero(t, server.Stats().ServedWrites)
		})
	}
}

func TestInsecureAndSecureDoNotMix(t *testing.T) {
	ca := newAuthority(t)
	secure, _ := start(t, newFiles(t).write(t, ca, ca, nodeCert()).config())
	open, h := start(t, insecure())
	require.Contains(t, h.log(), "Not for production", "never silent")
	for _, c := range []struct{ server, client *node }{{secure, open}, {open, secure}} {
		_, key := served(t, c.server, 100)
		p, id := dialled(t, c.client, c.server.Endpoint(), key)
		refusedAs(t, p, id, errs.ClassTransientPeer, "insecure_dev")
	}
}

// TestPinned: with insecure_dev a peer is known by the certificate in its endpoint.
func TestPinned(t *testing.T) {
	server, _ := start(t, insecure())
	client, _ := start(t, insecure())
	_, key := served(t, server, 100)
	e, err := wire.DecodeEndpoint(server.Endpoint().Blob)
	require.NoError(t, err)
	e.Pin[0] ^= 1
	ep := server.Endpoint()
	ep.Blob = e.Encode()
	p, id := dialled(t, client, ep, key)
	refusedAs(t, p, id, errs.ClassTransientPeer, "not the one of the endpoint")
}
