package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const year = 365 * 24 * time.Hour

func verify(c *x509.Certificate, ca *x509.Certificate, host string, usage x509.ExtKeyUsage, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestIssuedIsForItsHostsOnly(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("test", 10*year, now)
	require.NoError(t, err)
	other, err := NewAuthority("test", 10*year, now)
	require.NoError(t, err)
	p, err := ca.Issue([]string{"Node1.Example.org", "10.0.0.1", "[::1]", "*.pool.example.org", "10.0.0.1"}, year, now)
	require.NoError(t, err)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, host := range []string{"node1.example.org", "10.0.0.1", "::1", "a.pool.example.org"} {
			require.NoError(t, verify(p.Cert, ca.Cert, host, usage, now), host)
		}
		require.Error(t, verify(p.Cert, ca.Cert, "node2.example.org", usage, now))
		require.Error(t, verify(p.Cert, ca.Cert, "10.0.0.2", usage, now))
		require.Error(t, verify(p.Cert, other.Cert, "10.0.0.1", usage, now), "another authority of the same name")
		require.Error(t, verify(p.Cert, ca.Cert, "10.0.0.1", usage, now.Add(year+time.Minute)), "after its end")
		require.Error(t, verify(p.Cert, ca.Cert, "10.0.0.1", usage, now.Add(-time.Hour)), "before its begin")
	}
	require.Len(t, p.Cert.IPAddresses, 2)
	_, err = p.Issue([]string{"x"}, year, now)
	require.ErrorContains(t, err, "authority", "a node signs nothing")
	require.True(t, ca.Cert.MaxPathLenZero)
	require.Equal(t, "ECDSA P-256", Describe(p.Cert).Key)
}

func TestNotLongerThanTheAuthority(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("test", 2*time.Hour, now)
	require.NoError(t, err)
	p, err := ca.Issue([]string{"a"}, year, now)
	require.NoError(t, err)
	require.Equal(t, ca.Cert.NotAfter, p.Cert.NotAfter)
	_, err = ca.Issue([]string{"a"}, year, now.Add(3*time.Hour))
	require.ErrorContains(t, err, "ended")
}

func TestRefuses(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("test", year, now)
	require.NoError(t, err)
	for _, hosts := range [][]string{{}, {""}, {"a b"}, {"a:80"}, {"http://a"}, {"a/b"}, {"*"}, {"*.*.a"}, {"a..b"}, {"10.0.0.1:80"}, {"a_b"}} {
		_, err := ca.Issue(hosts, year, now)
		require.Error(t, err, "%q", hosts)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
	for _, valid := range []time.Duration{0, -year, time.Minute, 101 * year} {
		_, err := ca.Issue([]string{"a"}, valid, now)
		require.Error(t, err, valid)
		_, err = NewAuthority("test", valid, now)
		require.Error(t, err, valid)
	}
	_, err = NewAuthority("", year, now)
	require.Error(t, err)
}

// TestAnyHost: what Issue accepts, crypto/x509 takes for that host and no other.
func TestAnyHost(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("test", year, now)
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		host := rapid.OneOf(rapid.String(), rapid.StringMatching(`(\*\.)?[a-z0-9-]{1,8}(\.[a-z0-9-]{1,8}){0,3}`)).Draw(rt, "host")
		p, err := ca.Issue([]string{host}, year, now)
		if err != nil {
			return
		}
		again, err := ca.Issue(Describe(p.Cert).Names, year, now)
		if err != nil {
			rt.Fatalf("%q: its own names are refused: %v", host, err)
		}
		if a, b := Describe(p.Cert).Names, Describe(again.Cert).Names; a[0] != b[0] {
			rt.Fatalf("%q became %q", a, b)
		}
		if p.Cert.VerifyHostname("other.invalid") == nil {
			rt.Fatalf("%q is for another host too", host)
		}
	})
}

func TestFolder(t *testing.T) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "pki")
	f := Folder(dir)
	_, err := f.Issue("n", []string{"n"}, year, now)
	require.ErrorContains(t, err, "certs init")
	ca, err := f.Init("test", year, now)
	require.NoError(t, err)
	_, err = f.Init("test", year, now)
	require.ErrorIs(t, err, errs.ObjectAlreadyExists.Err())
	node, err := f.Issue("n", []string{"n", "127.0.0.1"}, 24*time.Hour, now)
	require.NoError(t, err)
	for name, mode := range map[string]os.FileMode{ca.Key: 0o600, node.Key: 0o600, node.Cert: 0o644, dir: 0o700 | os.ModeDir} {
		st, err := os.Stat(name)
		require.NoError(t, err)
		require.Zero(t, st.Mode()&^mode, "%s is %v", name, st.Mode())
	}
	before, err := os.ReadFile(node.Key)
	require.NoError(t, err)
	_, err = f.Issue("n", []string{"n"}, year, now)
	require.ErrorIs(t, err, errs.ObjectAlreadyExists.Err())
	same, err := os.ReadFile(node.Key)
	require.NoError(t, err)
	require.Equal(t, before, same, "nothing was overwritten")

	require.NoError(t, os.WriteFile(node.Cert+".new", []byte("left behind"), 0o600))
	renewed, err := f.Renew(node.Cert, year/2, now)
	require.NoError(t, err)
	require.Equal(t, node, renewed)
	pair, err := tls.LoadX509KeyPair(node.Cert, node.Key)
	require.NoError(t, err, "both were replaced")
	require.Equal(t, []string{"n"}, pair.Leaf.DNSNames)
	require.True(t, pair.Leaf.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)))
	require.True(t, pair.Leaf.NotAfter.After(now.Add(year/4)))
	after, err := os.ReadFile(node.Key)
	require.NoError(t, err)
	require.NotEqual(t, before, after, "a new key")
	st, err := os.Stat(node.Key)
	require.NoError(t, err)
	require.Zero(t, st.Mode()&0o077)
	_, err = f.Renew(ca.Cert, year, now)
	require.ErrorContains(t, err, "authority")
	left, err := filepath.Glob(dir + "/*.new")
	require.NoError(t, err)
	require.Empty(t, left)
	for _, name := range []string{"", "ca", "a/b", "..", ".x", "n-key"} {
		_, err := f.Node(name)
		require.Error(t, err, name)
	}
}

func FuzzParse(f *testing.F) {
	ca, err := NewAuthority("test", year, time.Now())
	require.NoError(f, err)
	text, _, err := ca.PEM()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Parse(b, "x")
		if err == nil && len(list) == 0 {
			t.Fatal("no certificate and no error")
		}
		for _, c := range list {
			_ = Describe(c)
		}
	})
}
