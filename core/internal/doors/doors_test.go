package doors

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func section(f security.Files, mode security.Mode, plaintext ...string) config.Security {
	return config.Security{Mode: string(mode), CA: f.CA, Cert: f.Cert, Key: f.Key, Plaintext: plaintext}
}

func open(t *testing.T, cfg config.Security, log io.Writer) *Doors {
	t.Helper()
	d, err := Open(cfg, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	return d
}

// echo serves a door that sends back what comes.
func echo(t *testing.T, d *Doors, door config.Door) string {
	t.Helper()
	raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln, err := d.Guard(raw, door)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		defer all.Wait()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); _, _ = io.Copy(c, c) })
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		<-done
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func refusals(d *Doors, door config.Door, reason string) float64 {
	var m dto.Metric
	if d.refused.WithLabelValues(string(door), reason).Write(&m) != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}

func certificate(role security.Role) securitytest.Certificate {
	return securitytest.Certificate{Role: role, Name: "a"}
}

func roundTrip(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
}

func TestADoorTakesPeersWithIdentities(t *testing.T) {
	a := securitytest.NewAuthority(t)
	var log logbuf.Buffer
	master := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeMTLS), &log)
	store := open(t, section(a.Issue(t, certificate(security.RoleStore)), security.ModeMTLS), io.Discard)
	addr := echo(t, master, config.DoorRPC)
	c, err := store.Dialer(config.DoorRPC, new(net.Dialer).DialContext, security.RoleMaster)(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	roundTrip(t, c)
	_, ok := security.Socket(c)
	assert.True(t, ok, "the options of the socket can be set")
	assert.Contains(t, log.String(), "door=rpc address="+addr+" security=mtls")
	assert.Equal(t, "mtls", master.Protection(config.DoorRPC))
}

func TestAConnectionWithoutTLSIsRefusedAtItsFirstBytes(t *testing.T) {
	a := securitytest.NewAuthority(t)
	var log logbuf.Buffer
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeMTLS), &log)
	addr := echo(t, d, config.DoorAdmin)
	for _, c := range []struct{ send, answer string }{
		{"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{"MCL1", string(alert)},
		{"PRI * HTTP/2.0\r\n", string(alert)},
		{"x", string(alert)},
	} {
		conn := dial(t, addr)
		_, err := io.WriteString(conn, c.send)
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err, c.send)
		assert.Contains(t, string(got), c.answer, c.send)
		assert.NotContains(t, string(got), c.send)
	}
	assert.InDelta(t, 4, refusals(d, config.DoorAdmin, "plaintext"), 0)
	text := log.String()
	assert.Equal(t, 1, bytes.Count([]byte(text), []byte("without TLS was refused")), "one line a minute for each host")
	assert.Contains(t, text, "door=admin remote=127.0.0.1:")
	assert.Contains(t, text, "set security.mode mtls and ca, cert and key where it comes from")

	looked := dial(t, addr)
	require.NoError(t, looked.Close())
	roundTripAfter := dial(t, addr)
	_, err := io.WriteString(roundTripAfter, "y")
	require.NoError(t, err)
	_, _ = io.ReadAll(roundTripAfter)
	assert.InDelta(t, 5, refusals(d, config.DoorAdmin, "plaintext"), 0, "a peer that only looks is not refused")
}

func TestPeersWithoutTheRightCertificateAreRefused(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	var log logbuf.Buffer
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeMTLS), &log)
	addr := echo(t, d, config.DoorRPC)
	for i, c := range []*tls.Config{
		{},
		{Certificates: []tls.Certificate{pair(t, other.Issue(t, certificate(security.RoleStore)))}},
		{Certificates: []tls.Certificate{pair(t, a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a", Ends: time.Now().Add(-time.Minute)}))}},
		{Certificates: []tls.Certificate{pair(t, a.Issue(t, securitytest.Certificate{Hosts: []string{"a.example.org"}}))}},
	} {
		c.InsecureSkipVerify = true
		_, err := io.ReadAll(tls.Client(dial(t, addr), c))
		require.ErrorContains(t, err, "remote error", "%d", i)
	}
	counted := func(reason string, n float64) { // The peer hears of it first.
		t.Helper()
		require.Eventually(t, func() bool { return refusals(d, config.DoorRPC, reason) == n }, time.Minute, time.Millisecond)
	}
	counted("certificate", 4)
	assert.Contains(t, log.String(), "refused for its certificate")
	_, err := io.ReadAll(tls.Client(dial(t, addr), &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}))
	require.Error(t, err)
	counted("handshake", 1)
}

func pair(t *testing.T, f security.Files) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	require.NoError(t, err)
	return p
}

// Peers that connect and stay silent take the places of handshakes, never those of others.
func TestHangingPeersStallNobody(t *testing.T) {
	a := securitytest.NewAuthority(t)
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeTLS), io.Discard)
	addr := echo(t, d, config.DoorRPC)
	var hanging []net.Conn
	for range mostHandshakes + 20 {
		hanging = append(hanging, dial(t, addr))
	}
	c, err := d.Dialer(config.DoorRPC, new(net.Dialer).DialContext, security.RoleMaster)(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	roundTrip(t, c)
	assert.GreaterOrEqual(t, refusals(d, config.DoorRPC, "crowd"), 20.0)
	_, err = io.ReadAll(hanging[0])
	require.NoError(t, err, "the oldest was closed")
}

func TestCloseEndsHandshakes(t *testing.T) {
	a := securitytest.NewAuthority(t)
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeTLS), io.Discard)
	raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln, err := d.Guard(raw, config.DoorRPC)
	require.NoError(t, err)
	silent := dial(t, ln.Addr().String())
	ready, err := d.Dialer(config.DoorRPC, new(net.Dialer).DialContext, security.RoleMaster)(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err) // It waits for Accept.
	defer ready.Close()
	require.NoError(t, ln.Close())
	for _, c := range []net.Conn{silent, ready} {
		_, err = io.ReadAll(c)
		require.False(t, isTimeout(err), "%v", err)
	}
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, ln.Close(), net.ErrClosed)
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // As it comes.
	return ok && e.Timeout()
}

func TestHTTPOverADoor(t *testing.T) {
	a := securitytest.NewAuthority(t)
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeMTLS), io.Discard)
	raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln, err := d.Guard(raw, config.DoorMetadata)
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := d.Keeper().Peer(*r.TLS)
		assert.NoError(t, err)
		_, _ = io.WriteString(w, id.String())
	})}
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()
	client := open(t, section(a.Issue(t, certificate(security.RoleStore)), security.ModeMTLS), io.Discard)
	transport := client.Transport(&http.Transport{}, config.DoorMetadata, security.RoleMaster)
	for _, scheme := range []string{"http", "https"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+ln.Addr().String(), nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err, scheme)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		assert.Equal(t, "store/a", string(body))
	}
	transport.CloseIdleConnections()
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

func TestDoorsThatStayPlaintext(t *testing.T) {
	a := securitytest.NewAuthority(t)
	var log logbuf.Buffer
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeMTLS, "health"), &log)
	addr := echo(t, d, config.DoorHealth)
	c, err := d.Dialer(config.DoorHealth, new(net.Dialer).DialContext)(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	roundTrip(t, c)
	roundTrip(t, dial(t, addr))
	assert.Contains(t, log.String(), "open in plaintext")
	assert.Equal(t, "plaintext", d.Protection(config.DoorHealth))
	require.NoError(t, d.Allow(config.DoorHealth, "x"))
	err = d.Allow(config.DoorKVEvents, "KV events are plaintext")
	require.ErrorContains(t, err, "it is mtls, and KV events are plaintext")
	require.ErrorContains(t, err, "name kv-events in security.plaintext, which now has [health]")
}

func TestModeOffWarnsOnceWhereOthersReachIt(t *testing.T) {
	for host, lines := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		var log logbuf.Buffer
		d := open(t, config.Security{}, &log)
		for range 3 {
			ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host)
			require.NoError(t, err)
			same, err := d.Guard(ln, config.DoorRPC)
			require.NoError(t, err)
			assert.Same(t, ln, same)
			require.NoError(t, ln.Close())
		}
		assert.Equal(t, lines, bytes.Count([]byte(log.String()), []byte("security.mode is off")), host)
		assert.Nil(t, d.Keeper())
	}
	var none *Doors
	assert.Equal(t, "plaintext", none.Protection(config.DoorRPC))
	require.NoError(t, none.Allow(config.DoorData, "x"))
	assert.Nil(t, none.Keeper())
}

func TestAProcessWithoutACertificateOpensNoDoor(t *testing.T) {
	a := securitytest.NewAuthority(t)
	d := open(t, config.Security{Mode: "tls", CA: a.File}, io.Discard)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, err = d.Guard(ln, config.DoorRPC)
	require.ErrorContains(t, err, "needs a certificate and its key")
	_, err = Open(config.Security{Mode: "mtls"}, slog.Default())
	require.ErrorContains(t, err, "no certificates are configured")
}

func TestStartFollowsTheFiles(t *testing.T) {
	a := securitytest.NewAuthority(t)
	d := open(t, section(a.Issue(t, certificate(security.RoleMaster)), security.ModeTLS), io.Discard)
	stop := d.Start()
	stop()
	d.Run(canceled(t))
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestClientIDsAreOfTheIdentity where masters ask for it, and the process knows it.
func TestClientIDsAreOfTheIdentity(t *testing.T) {
	a := securitytest.NewAuthority(t)
	id := model.UUID{Hi: 1, Lo: 2}
	store := a.Issue(t, certificate(security.RoleStore))
	unnamed := a.Issue(t, securitytest.Certificate{Hosts: []string{"a.example.org"}})
	own := func(cfg config.Security) (model.UUID, error) { return open(t, cfg, io.Discard).Own(id) }
	got, err := own(section(store, security.ModeMTLS))
	require.NoError(t, err)
	want := security.Identity{Trust: securitytest.Trust, Role: security.RoleStore, Name: "a"}
	require.Equal(t, model.UUID{Hi: access.Owner(want), Lo: 2}, got)
	for _, cfg := range []config.Security{section(store, security.ModeMTLS, "rpc"), section(store, security.ModeTLS), {Mode: "off"}} {
		got, err = own(cfg)
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	f := a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Tenant: "team", Name: "a"})
	d := open(t, section(f, security.ModeMTLS), io.Discard)
	require.Equal(t, []string{"team", "team", "other"}, []string{d.Tenant(""), d.Tenant("default"), d.Tenant("other")})
	require.Equal(t, "default", open(t, section(f, security.ModeTLS), io.Discard).Tenant("default"))
	require.Equal(t, "default", (*Doors)(nil).Tenant("default"))
	got, err = (*Doors)(nil).Own(id)
	require.NoError(t, err)
	require.Equal(t, id, got)
	cfg := section(unnamed, security.ModeMTLS)
	_, err = own(cfg)
	require.ErrorContains(t, err, "the same entry belongs into that of this process")
	cfg.Allow = []string{"client/b=a.example.org"}
	got, err = own(cfg)
	require.NoError(t, err)
	require.Equal(t, access.Owner(security.Identity{Role: security.RoleClient, Name: "b"}), got.Hi)
}
