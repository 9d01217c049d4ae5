package security_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// meet connects a client to a server and sends a byte both ways. It returns what the two ends saw.
func meet(t *testing.T, server *security.Keeper, client func(net.Conn) (net.Conn, error)) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		c := tls.Server(raw, server.Server("h2"))
		if err = c.HandshakeContext(t.Context()); err == nil {
			seen = c.ConnectionState()
			_, err = io.CopyN(c, c, 1)
		}
		done <- err
	}()
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	defer raw.Close()
	c, clientErr := client(raw)
	if clientErr == nil {
		if _, clientErr = c.Write([]byte{1}); clientErr == nil {
			_, clientErr = io.ReadFull(c, make([]byte, 1))
		}
	}
	_ = raw.Close()
	serverErr = <-done
	return seen, serverErr, clientErr
}

// through is a client that dials host and expects a master.
func through(k *security.Keeper, host string, want ...security.Role) func(net.Conn) (net.Conn, error) {
	return func(raw net.Conn) (net.Conn, error) {
		return k.Secure(context.Background(), raw, net.JoinHostPort(host, "1"), want...)
	}
}

func cert(role security.Role, hosts ...string) securitytest.Certificate {
	return securitytest.Certificate{Role: role, Name: "a", Hosts: hosts}
}

func TestBothSidesKnowEachOther(t *testing.T) {
	a := securitytest.NewAuthority(t)
	master := a.Keeper(t, security.ModeMTLS, cert(security.RoleMaster, "elsewhere"))
	store := a.Keeper(t, security.ModeMTLS, cert(security.RoleStore))
	seen, serverErr, clientErr := meet(t, master, through(store, "127.0.0.1", security.RoleMaster))
	require.NoError(t, serverErr)
	require.NoError(t, clientErr)
	id, err := master.Peer(seen)
	require.NoError(t, err)
	assert.Equal(t, security.Identity{Trust: securitytest.Trust, Role: security.RoleStore, Name: "a"}, id)
	assert.EqualValues(t, tls.VersionTLS13, seen.Version)
	own, err := master.Identity()
	require.NoError(t, err)
	assert.Equal(t, "master/a", own.String())
}

func TestPeersWithoutTheRightCertificateAreRefused(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	master := a.Keeper(t, security.ModeMTLS, cert(security.RoleMaster, "127.0.0.1"))
	foreignTrust := a.Keeper(t, security.ModeMTLS, securitytest.Certificate{URI: "spiffe://other/mooncake/store/a"})
	anonymous, err := security.Open(security.Settings{Mode: security.ModeTLS, Files: security.Files{CA: a.File}})
	require.NoError(t, err)
	stranger := other.Issue(t, cert(security.RoleStore))
	stranger.CA = a.File // It trusts the master, which does not trust it.

	// A certificate that ends while the process goes on.
	late := a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a", Ends: time.Now().Add(-time.Second)})
	raw := func(f security.Files) func(net.Conn) (net.Conn, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		require.NoError(t, err)
		return func(c net.Conn) (net.Conn, error) {
			return tls.Client(c, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}), nil
		}
	}
	for name, c := range map[string]struct {
		client func(net.Conn) (net.Conn, error)
		says   string
	}{
		"no certificate":    {through(anonymous, "127.0.0.1", security.RoleMaster), "didn't provide a certificate"},
		"another authority": {raw(stranger), "unknown authority"},
		"ended":             {raw(late), "expired"},
		"only for servers": {
			raw(a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a", Uses: []x509.ExtKeyUsage{security.AsServer}})), "incompatible key usage",
		},
		"no identity":          {raw(a.Issue(t, cert("", "node.example.org"))), "no identity of mooncake: it is for node.example.org"},
		"not an identity":      {raw(a.Issue(t, securitytest.Certificate{URI: "spiffe://test/mooncake/root/a"})), "the roles are"},
		"two identities":       {raw(a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a", URI: "spiffe://test/mooncake/client/a"})), "two identities"},
		"another trust domain": {through(foreignTrust, "127.0.0.1", security.RoleMaster), "another trust domain"},
		"an old version": {func(c net.Conn) (net.Conn, error) {
			return tls.Client(c, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}), nil
		}, "unsupported versions"},
	} {
		t.Run(name, func(t *testing.T) {
			_, serverErr, clientErr := meet(t, master, c.client)
			if name == "another trust domain" {
				require.ErrorContains(t, clientErr, c.says) // Both notice; the client is first.
				return
			}
			require.ErrorContains(t, serverErr, c.says)
			require.Error(t, clientErr)
		})
	}
}

func TestAClientChoosesItsServer(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	client := a.Keeper(t, security.ModeMTLS, cert(security.RoleClient))
	for name, c := range map[string]struct {
		server *security.Keeper
		host   string
		says   string
	}{
		"right role":        {a.Keeper(t, security.ModeMTLS, cert(security.RoleMaster)), "10.1.2.3", ""},
		"wrong role":        {a.Keeper(t, security.ModeMTLS, cert(security.RoleStore, "10.1.2.3")), "10.1.2.3", "the server is store/a, expected is a master or reader"},
		"right name":        {a.Keeper(t, security.ModeMTLS, cert("", "m.example.org")), "m.example.org", ""},
		"right address":     {a.Keeper(t, security.ModeMTLS, cert("", "10.1.2.3")), "10.1.2.3", ""},
		"wrong name":        {a.Keeper(t, security.ModeMTLS, cert("", "m.example.org")), "n.example.org", "not n.example.org"},
		"wrong address":     {a.Keeper(t, security.ModeMTLS, cert("", "10.1.2.4")), "10.1.2.3", "not 10.1.2.3"},
		"another authority": {other.Keeper(t, security.ModeMTLS, cert(security.RoleMaster)), "10.1.2.3", "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := meet(t, c.server, through(client, c.host, security.RoleMaster, security.RoleReader))
			if c.says == "" {
				// The server refuses the client where it has another authority, never here.
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAllowGivesIdentities(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(t, cert(security.RoleMaster))
	master, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: files, Allow: []string{
		"client/team/a=dns:a.teams.example.org", "store/big=dns:*.stores.example.org", "client=uri:spiffe://k8s/ns/llm/sa/*", "operator=subject:CN=node/O=tests",
	}})
	require.NoError(t, err)
	for _, c := range []struct {
		cert securitytest.Certificate
		want security.Identity
	}{
		{cert("", "x.stores.example.org"), security.Identity{Role: security.RoleStore, Name: "big"}},
		{cert("", "a.teams.example.org"), security.Identity{Role: security.RoleClient, Tenant: "team", Name: "a"}},
		{securitytest.Certificate{URI: "spiffe://k8s/ns/llm/sa/worker"}, security.Identity{Role: security.RoleClient, Name: "spiffe://k8s/ns/llm/sa/worker"}},
		{cert("", "x.y.stores.example.org"), security.Identity{Role: security.RoleOperator, Name: "CN=node,O=tests"}},
		{cert(security.RoleReader, "x.stores.example.org"), security.Identity{Trust: securitytest.Trust, Role: security.RoleReader, Name: "a"}},
	} {
		seen, serverErr, _ := meet(t, master, through(a.Keeper(t, security.ModeMTLS, c.cert), "h", security.RoleMaster))
		require.NoError(t, serverErr)
		got, err := master.Peer(seen)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
}

func TestClientsNeedNoCertificateWithModeTLS(t *testing.T) {
	a := securitytest.NewAuthority(t)
	master := a.Keeper(t, security.ModeTLS, cert(security.RoleMaster))
	anonymous, err := security.Open(security.Settings{Mode: security.ModeTLS, Files: security.Files{CA: a.File}})
	require.NoError(t, err)
	seen, serverErr, clientErr := meet(t, master, through(anonymous, "h", security.RoleMaster))
	require.NoError(t, serverErr)
	require.NoError(t, clientErr)
	_, err = master.Peer(seen)
	require.ErrorIs(t, err, security.ErrNoIdentity)
	require.NoError(t, master.CanServe())
	require.ErrorContains(t, anonymous.CanServe(), "needs a certificate and its key")
	_, serverErr, _ = meet(t, anonymous, through(anonymous, "h", security.RoleMaster))
	require.ErrorContains(t, serverErr, "needs a certificate and its key")
}

func TestAServerWithoutTLSIsNamed(t *testing.T) {
	a := securitytest.NewAuthority(t)
	k := a.Keeper(t, security.ModeMTLS, cert(security.RoleClient))
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		_, _ = there.Read(make([]byte, 64<<10))
		_, _ = there.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_, _ = io.Copy(io.Discard, there)
	}()
	_, err := k.Secure(t.Context(), here, "10.1.2.3:50051", security.RoleMaster)
	require.ErrorContains(t, err, "10.1.2.3:50051 does not speak TLS")
	require.ErrorContains(t, err, "it is mtls here")
}

func TestASilentServerIsLeft(t *testing.T) {
	a := securitytest.NewAuthority(t)
	k := a.Keeper(t, security.ModeMTLS, cert(security.RoleClient))
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, err := k.Secure(t.Context(), here, "10.1.2.3:50051", security.RoleMaster)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestFilesThatPeersWouldRefuseAreFound(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	good := a.Issue(t, cert(security.RoleStore))
	mixed, foreign := good, good
	mixed.Key = a.Issue(t, cert(security.RoleStore)).Key
	foreign.CA = other.File
	gone := good
	gone.Cert += ".gone"
	for name, c := range map[string]struct {
		files     security.Files
		says, now string
	}{
		"nothing set":  {security.Files{}, "no certificates are configured", "mooncake certs init"},
		"no key":       {security.Files{CA: good.CA, Cert: good.Cert}, "needs a certificate and its key", "set ca, cert and key of security"},
		"missing":      {gone, "cannot read", "no such file"},
		"no PEM":       {security.Files{CA: good.Key, Cert: good.Cert, Key: good.Key}, "holds no certificate in PEM", "mooncake certs"},
		"mixed":        {mixed, "does not match public key", "mooncake certs show"},
		"foreign":      {foreign, "unknown authority", "signed by the authority of ca"},
		"ended":        {a.Issue(t, securitytest.Certificate{Ends: time.Now().Add(-time.Minute)}), "the certificate ended at", "mooncake certs renew"},
		"early":        {a.Issue(t, securitytest.Certificate{Begins: time.Now().Add(time.Minute)}), "the certificate begins at", "clock"},
		"usage":        {a.Issue(t, securitytest.Certificate{Uses: []x509.ExtKeyUsage{security.AsServer}}), "as a client's", "for use as server and as client"},
		"incomplete":   {a.Between(t).Issue(t, securitytest.Certificate{Alone: true}), "unknown authority", "they follow it in the file cert"},
		"bad identity": {a.Issue(t, securitytest.Certificate{URI: "spiffe://t/mooncake/store/a/b/c"}), "is not spiffe://TRUST/mooncake/ROLE/NAME", "mooncake certs issue"},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: c.files})
			assert.Nil(t, k)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, c.now)
		})
	}
	_, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: a.Between(t).Issue(t, cert(security.RoleStore))})
	require.NoError(t, err, "a chain with a certificate between")
	_, err = security.Open(security.Settings{Mode: "mutual", Files: good})
	require.ErrorContains(t, err, `mode is "mutual"`)
	_, err = security.Open(security.Settings{Mode: security.ModeTLS, Files: good, Allow: []string{"x"}})
	require.ErrorContains(t, err, "ROLE=PATTERN")
}

func TestOffIsNil(t *testing.T) {
	for _, mode := range []security.Mode{"", security.ModeOff} {
		k, err := security.Open(security.Settings{Mode: mode})
		require.NoError(t, err)
		require.Nil(t, k)
		assert.Equal(t, security.ModeOff, k.Mode())
		assert.False(t, k.On())
		assert.Zero(t, k.Reloads())
		require.NoError(t, k.CanServe())
		_, err = k.Identity()
		require.ErrorIs(t, err, security.ErrNoIdentity)
		k.Run(t.Context())
		here, _ := net.Pipe()
		same, err := k.Secure(t.Context(), here, "h:1")
		require.NoError(t, err)
		assert.Same(t, here, same)
		failed := errors.New("dialled")
		_, err = k.Dialer(func(context.Context, string, string) (net.Conn, error) { return nil, failed })(t.Context(), "tcp", "h:1")
		require.ErrorIs(t, err, failed)
	}
}

func TestChangedFilesAreTakenUpAndBadOnesAreNot(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	files := a.Issue(t, cert(security.RoleMaster))
	var log bytes.Buffer
	var reports []string
	now := time.Now()
	master, err := security.Open(security.Settings{
		Mode: security.ModeMTLS, Files: files, Warning: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Report: func(s string) { reports = append(reports, s) }, Clock: func() time.Time { return now },
	})
	require.NoError(t, err)
	client := a.Keeper(t, security.ModeMTLS, cert(security.RoleClient))
	serial := func() string {
		t.Helper()
		_, serverErr, clientErr := meet(t, master, through(client, "h", security.RoleMaster))
		require.NoError(t, serverErr)
		require.NoError(t, clientErr)
		return master.Present().Leaf.SerialNumber.String()
	}
	first := serial()
	assert.False(t, master.Look(), "nothing has changed")

	whole, err := os.ReadFile(files.Cert)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Cert, whole[:len(whole)/2], 0o600))
	assert.False(t, master.Look())
	assert.Equal(t, first, serial(), "half a file")
	other.Replace(t, files, cert(security.RoleMaster))
	assert.False(t, master.Look())
	assert.Equal(t, first, serial(), "another authority")
	require.NoError(t, os.Remove(files.Key))
	assert.False(t, master.Look())
	assert.Equal(t, first, serial(), "no key")

	a.Replace(t, files, cert(security.RoleMaster))
	assert.True(t, master.Look())
	assert.EqualValues(t, 1, master.Reloads())
	assert.NotEqual(t, first, serial())
	const cannot = "the certificate files cannot be used; going on with what was read before"
	assert.Equal(t, []string{cannot, ""}, reports, "each trouble once")
	assert.Contains(t, log.String(), "certificates were replaced")

	now = now.Add(time.Hour - 30*time.Second)
	master.Look()
	now = now.Add(time.Hour)
	master.Look()
	assert.Equal(t, []string{cannot, "", "the certificate of this process ends soon", "the certificate of this process has ended; peers refuse it"}, reports)
}

func TestRunLooksAtTheFiles(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(t, cert(security.RoleMaster))
	k, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: files, Every: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	a.Replace(t, files, cert(security.RoleMaster))
	for k.Reloads() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
}

func TestAConnectionOutlivesItsCertificates(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(t, cert(security.RoleMaster))
	master, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: files})
	require.NoError(t, err)
	client := a.Keeper(t, security.ModeMTLS, cert(security.RoleClient))
	here, there := net.Pipe()
	server := tls.Server(there, master.Server())
	go func() { _, _ = io.Copy(server, server) }()
	c, err := client.Secure(t.Context(), here, "h:1", security.RoleMaster)
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		a.Replace(t, files, cert(security.RoleMaster))
		require.True(t, master.Look())
	}
}
