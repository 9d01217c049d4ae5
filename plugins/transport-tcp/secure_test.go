package tcp

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// mtls returns the settings of a process with a certificate of the authority.
func mtls(t testing.TB, a *securitytest.Authority, role security.Role) security.Settings {
	return security.Settings{Mode: security.ModeMTLS, Files: a.Issue(t, securitytest.Certificate{Role: role, Name: "a"}), Every: 5 * time.Millisecond}
}

func bare(c net.Conn) net.Conn { return c }

// securePair is newPair with both sides in mode mtls.
func securePair(t testing.TB, size int, change ...func(*Config)) *pair {
	a := securitytest.NewAuthority(t)
	return newPairOf(t, size, bare, [2]plugin.Host{
		secured{settings: mtls(t, a, security.RoleStore)}, secured{settings: mtls(t, a, security.RoleClient)},
	}, change...)
}

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestBytesOverTLS moves sizes around those of records, and finds no payload on the wire.
func TestBytesOverTLS(t *testing.T) {
	var wire logged
	a := securitytest.NewAuthority(t)
	r := newPairOf(t, 3<<20, func(c net.Conn) net.Conn { return &tapped{c, &wire} }, [2]plugin.Host{
		secured{settings: mtls(t, a, security.RoleStore)}, secured{settings: mtls(t, a, security.RoleClient)},
	}, single, func(c *Config) { c.Checksum = true })
	secret := bytes.Repeat([]byte("a page of an engine"), 3<<20/19+1)[:3<<20]
	for _, n := range []int{1, 64, 16<<10 - 64, 16 << 10, 16<<10 + 1, 100_000, 1 << 20, 3 << 20} {
		r.ok(t, r.write(secret[:n]))
		require.Equal(t, secret[:n], r.mem[:n])
		got := make([]byte, n)
		r.ok(t, r.read(got))
		require.Equal(t, secret[:n], got)
		clear(r.mem)
	}
	require.NotContains(t, wire.String(), "a page of an")
	require.Greater(t, len(wire.String()), 2*4<<20)
	require.Zero(t, r.server.Stats().Untrusted)
}

// tapped notes what is written.
type tapped struct {
	net.Conn
	to io.Writer
}

func (c *tapped) Write(b []byte) (int, error) {
	_, _ = c.to.Write(b)
	return c.Conn.Write(b)
}

// TestManyBatchesOverTLS has operations of all sizes in flight on several connections, in both directions.
func TestManyBatchesOverTLS(t *testing.T) {
	r := securePair(t, 8<<20, func(c *Config) { c.SliceBytes = 64 << 10 })
	local := make([]byte, 8<<20)
	_, _ = rand.Read(local)
	want := bytes.Clone(local)
	for _, size := range []int{4 << 10, 100 << 10, 1 << 20} {
		span := len(local) / size * size
		r.pump(t, transport.Write, local[:span], size, 16, span/size)
		require.Equal(t, want[:span], r.mem[:span])
		clear(local)
		r.pump(t, transport.Read, local[:span], size, 16, span/size)
		require.Equal(t, want[:span], local[:span])
		copy(local, want)
	}
}

// TestMoreConnectionsSealOnMoreProcessors bounds the pool of a path by the processors.
func TestMoreConnectionsSealOnMoreProcessors(t *testing.T) {
	for _, c := range []struct{ procs, near, far, want int }{{2, 4, 16, 4}, {8, 4, 16, 4}, {16, 4, 16, 8}, {64, 4, 16, 16}, {64, 4, 2, 4}, {64, 1, 1, 1}} {
		s := settings{Config: Config{ConnectionsPerPeer: c.near, ConnectionsFar: c.far}}
		require.Equal(t, c.want, s.sealing(c.procs), "%+v", c)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	require.Equal(t, 4, newPair(t, 4096).path.maxConns)
	require.Equal(t, 8, securePair(t, 4096).path.maxConns)
}

// both writes a file with the certificates of two authorities.
func both(t testing.TB, a, b *securitytest.Authority) string {
	var all []byte
	for _, f := range []string{a.File, b.File} {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all = append(all, text...)
	}
	name := filepath.Join(t.TempDir(), "both.pem")
	require.NoError(t, os.WriteFile(name, all, 0o600))
	return name
}

// TestPeersThatAreRefused: the side that dials says what is wrong, and the other one logs it.
func TestPeersThatAreRefused(t *testing.T) {
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	now := time.Now()
	of := func(by *securitytest.Authority, c securitytest.Certificate) security.Settings {
		return security.Settings{Mode: security.ModeMTLS, Files: by.Issue(t, c)}
	}
	store := securitytest.Certificate{Role: security.RoleStore, Name: "a"}
	client := securitytest.Certificate{Role: security.RoleClient, Name: "a"}
	trusting := of(other, client)
	trusting.Files.CA = both(t, a, other)
	ended := of(a, securitytest.Certificate{Role: security.RoleClient, Name: "a", Ends: now.Add(-time.Minute)})
	_, err := security.Open(ended)
	require.ErrorContains(t, err, "ended", "by its own clock it would not start")
	ended.Clock = func() time.Time { return now.Add(-2 * time.Minute) }
	for name, c := range map[string]struct {
		server       securitytest.Certificate
		client       security.Settings
		said, logged string // by the operation, and by the server
	}{
		"another authority, which trusts no other":   {store, of(other, client), "the peer is not trusted: 127.0.0.1", "TLS handshake failed"},
		"another authority, which trusts the server": {store, trusting, "the peer refused this process", "unknown authority"},
		"an ended certificate":                       {store, ended, "the peer refused this process", "expired or is not yet valid"},
		"a certificate without an identity":          {store, of(a, securitytest.Certificate{}), "the peer refused this process", "carries no identity"},
		"an operator":                                {store, mtls(t, a, security.RoleOperator), "the peer refused this process", "the client is operator/a, expected is a store or client or master"},
		"a reader":                                   {store, mtls(t, a, security.RoleReader), "the peer refused this process", "the client is reader/a"},
		"an operator that serves":                    {securitytest.Certificate{Role: security.RoleOperator, Name: "a"}, of(a, client), "the server is operator/a, expected is a store or client", "TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			r := newPairOf(t, 4096, bare, [2]plugin.Host{secured{settings: of(a, c.server), log: log.logger()}, secured{settings: c.client}}, single)
			got := r.run(t, r.read(make([]byte, 64)))[0]
			require.Equal(t, transport.Failed, got.Status)
			require.ErrorContains(t, got.Err, c.said)
			require.ErrorContains(t, got.Err, "mooncake certs show")
			require.Equal(t, errs.ClassTransientPeer, got.Class())
			until(t, "the server logs it", func() bool { return strings.Contains(log.String(), c.logged) })
			require.Contains(t, log.String(), "peer=127.0.0.1:")
			require.NotZero(t, r.server.Stats().Untrusted)
			require.Zero(t, r.server.Stats().Accepted)
		})
	}
}

// TestStrangersWithoutTLS: a node with a security mode serves no plaintext, of either protocol, and no client
// without a certificate. It logs one line of each kind, however many there are.
func TestStrangersWithoutTLS(t *testing.T) {
	var log logged
	a := securitytest.NewAuthority(t)
	r := newPairOf(t, 4096, bare, [2]plugin.Host{
		secured{settings: mtls(t, a, security.RoleStore), log: log.logger()}, secured{settings: mtls(t, a, security.RoleClient)},
	})
	var request [24]byte // A READ of upstream's protocol.
	up := bufferOf(r.mem)
	binary.LittleEndian.PutUint64(request[:], 64)
	binary.LittleEndian.PutUint64(request[8:], up.Addr)
	request[16] = 0x80
	for i := range uint64(3) {
		for _, first := range [][]byte{helloOf(r.server.incarnation), request[:], []byte("GET / HTTP/1.1\r\n\r\n")} {
			c := r.rawConn(t)
			_, err := c.Write(first)
			require.NoError(t, err)
			closedByPeer(t, c)
		}
		require.EqualValues(t, 3*i+3+i, r.server.Stats().Untrusted)
		c := tls.Client(r.rawConn(t), &tls.Config{InsecureSkipVerify: true})
		_, err := c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "certificate required")
		until(t, "it is counted", func() bool { return r.server.Stats().Untrusted == 4*i+4 })
	}
	for _, v := range []uint16{tls.VersionTLS10, tls.VersionTLS12} {
		c := tls.Client(r.rawConn(t), &tls.Config{InsecureSkipVerify: true, MinVersion: v, MaxVersion: v})
		require.ErrorContains(t, c.Handshake(), "protocol version")
	}
	require.Equal(t, 1, strings.Count(log.String(), "a connection without TLS was refused: set security.mode"))
	require.Equal(t, 1, strings.Count(log.String(), "the TLS handshake failed"))
	require.Empty(t, r.server.Segment().Buffers, "nothing is published for peers of upstream")
	require.Zero(t, r.server.Stats().AcceptedUpstream)
	r.ok(t, r.read(make([]byte, 64)))
}

// TestUpstreamBesideTLS: only a transport whose settings ask for it serves upstream's protocol then, and says so.
func TestUpstreamBesideTLS(t *testing.T) {
	var log logged
	a := securitytest.NewAuthority(t)
	on := true
	r := newPairOf(t, 4096, bare, [2]plugin.Host{
		secured{settings: mtls(t, a, security.RoleStore), log: log.logger()}, secured{settings: mtls(t, a, security.RoleClient)},
	}, single, func(c *Config) { c.Upstream = &on })
	require.Contains(t, log.String(), "upstream's protocol is served in plaintext although security.mode is not off")
	c := r.rawConn(t)
	_, err := c.Write(helloOf(r.server.incarnation))
	require.NoError(t, err)
	closedByPeer(t, c)
	require.EqualValues(t, 1, r.server.Stats().Untrusted, "a plaintext hello is refused all the same")
	r.ok(t, r.read(make([]byte, 64)))
	r.dialUpstream(t, 2, r.server.Segment().DataPort)
	r.ok(t, r.read(make([]byte, 64)))

	off := securePair(t, 64)
	_, _, err = off.client.Translate(transport.PeerSegment{Name: "peer", Segment: transport.Segment{Protocol: "tcp", DataPort: 1}})
	require.ErrorContains(t, err, "switched off")
	require.ErrorContains(t, err, "set upstream: true")
	_, err = off.client.Dial(t.Context(), transport.Endpoint{Blob: frame.Endpoint{Incarnation: 1, Addrs: []string{"h:1"}, Upstream: 2}.Encode(), Incarnation: 1})
	require.ErrorContains(t, err, "switched off")
}

// TestModesThatDiffer: the endpoint says enough for a clear error on the side that dials.
func TestModesThatDiffer(t *testing.T) {
	safe, plain := securePair(t, 64), newPair(t, 64)
	_, err := safe.client.Dial(t.Context(), plain.server.Endpoint())
	require.ErrorContains(t, err, "speaks plaintext, and security.mode is mtls here")
	require.ErrorContains(t, err, "set security.mode there")
	require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	_, err = plain.client.Dial(t.Context(), safe.server.Endpoint())
	require.ErrorContains(t, err, "takes TLS only, and security.mode is off here")

	// A peer that claims TLS and has none.
	e, err := frame.DecodeEndpoint(plain.server.Endpoint().Blob)
	require.NoError(t, err)
	e.TLS = true
	r := &pair{client: safe.client, key: plain.key}
	r.dial(t, transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation})
	got := make(chan transport.Completion, 1)
	op := r.read(make([]byte, 8))
	op.Deadline = time.Now().Add(100 * time.Millisecond)
	got <- r.run(t, op)[0]
	require.ErrorContains(t, (<-got).Err, "it may speak plaintext")
	require.Zero(t, plain.server.Stats().Accepted)
}

// TestModeTLS: servers show certificates, clients need none.
func TestModeTLS(t *testing.T) {
	a := securitytest.NewAuthority(t)
	server := security.Settings{Mode: security.ModeTLS, Files: a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a"})}
	client := security.Settings{Mode: security.ModeTLS, Files: security.Files{CA: a.File}}
	var log logged
	r := newPairOf(t, 4096, bare, [2]plugin.Host{secured{settings: server}, secured{settings: client, log: log.logger()}}, single)
	require.Contains(t, log.String(), "this process has no certificate, so that no peer reaches its memory")
	buf := make([]byte, 4096)
	_, _ = rand.Read(buf)
	r.ok(t, r.write(buf))
	require.Equal(t, buf, r.mem)
	c := r.rawConn(t)
	_, err := c.Write(helloOf(r.server.incarnation))
	require.NoError(t, err)
	closedByPeer(t, c)
}

// TestRotationWhileBytesMove replaces the certificates of both sides again and again. Nothing fails: the side that
// dialled leaves a connection that shows its old certificate once nothing is in flight on it.
func TestRotationWhileBytesMove(t *testing.T) {
	a := securitytest.NewAuthority(t)
	hosts := [2]secured{{settings: mtls(t, a, security.RoleStore)}, {settings: mtls(t, a, security.RoleClient)}}
	r := newPairOf(t, 1<<20, bare, [2]plugin.Host{hosts[0], hosts[1]}, single)
	local := make([]byte, 1<<20)
	r.ok(t, r.write(local))
	for i := range uint64(5) {
		for j, role := range []security.Role{security.RoleStore, security.RoleClient} {
			a.Replace(t, hosts[j].settings.Files, securitytest.Certificate{Role: role, Name: "a"})
		}
		for end := time.Now().Add(limit); r.server.trust.keeper.Reloads() <= i || r.client.trust.keeper.Reloads() <= i; {
			require.True(t, time.Now().Before(end), "the files are never taken up")
			r.pump(t, transport.Write, local, 64<<10, 4, 16)
			r.pump(t, transport.Read, local, 64<<10, 4, 16)
		}
	}
	require.Zero(t, r.client.Stats().ConnectionsCut)
	require.GreaterOrEqual(t, r.server.Stats().Accepted, uint64(5))
	require.Eventually(t, func() bool { return r.server.Stats().ConnectionsIn <= 1 }, limit, time.Millisecond)
	a.Replace(t, hosts[0].settings.Files, securitytest.Certificate{Role: security.RoleOperator, Name: "a"})
	require.Eventually(t, func() bool {
		id, err := r.server.trust.keeper.Identity()
		return err == nil && id.Role == security.RoleOperator
	}, limit, time.Millisecond)
	r.ok(t, r.read(local))
	r.dial(t, r.server.Endpoint())
	require.ErrorContains(t, r.run(t, r.read(local))[0].Err, "the server is operator/a")
}

// TestKeysAreUsedUp: a connection that has carried what its keys are good for gives way to another one, and
// no operation fails.
func TestKeysAreUsedUp(t *testing.T) {
	r := securePair(t, 1<<20, single)
	r.client.maxCarried = 3 << 20
	local := make([]byte, 1<<20)
	for range 20 {
		r.pump(t, transport.Write, local, 64<<10, 4, 16)
	}
	s := r.client.Stats()
	require.Zero(t, s.ConnectionsCut)
	require.Zero(t, s.OpsFailed+s.OpsQuarantined)
	require.GreaterOrEqual(t, r.server.Stats().Accepted, uint64(5))
	require.LessOrEqual(t, r.server.Stats().Accepted, uint64(8))
}

// TestStopIsHeardOverTLS: what a node had not begun when it stopped has failed and is not indeterminate.
func TestStopIsHeardOverTLS(t *testing.T) {
	r := securePair(t, 1<<20, single)
	buf := make([]byte, 1<<20)
	r.ok(t, r.write(buf))
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() { defer close(done); _ = r.server.Stop(t.Context()); stopped.Store(true) }()
	for !stopped.Load() {
		for _, c := range r.run(t, r.write(buf)) {
			if c.Status != transport.OK {
				require.Equal(t, transport.Failed, c.Status, "%v", c.Err)
			}
		}
	}
	<-done
}

// TestDamagedRecord: a byte that changed on the way ends the connection, and what it carried failed.
func TestDamagedRecord(t *testing.T) {
	r := securePair(t, 1<<20, single)
	f, ep := proxy(t, r.server.Endpoint())
	r.dial(t, ep)
	buf := make([]byte, 1<<20)
	r.ok(t, r.write(buf))
	for _, up := range []bool{true, false} {
		var once atomic.Bool
		f.set(func(dir bool, _ int64, b []byte) verdict {
			if dir == up && len(b) > 1000 && once.CompareAndSwap(false, true) {
				b[500] ^= 1
			}
			return pass
		})
		op, want := r.read(buf), transport.Failed
		if up {
			op, want = r.write(bytes.Repeat([]byte("x"), 1<<20)), transport.Quarantined
		}
		require.Equal(t, want, r.run(t, op)[0].Status)
		until(t, "the server drops the connection", func() bool { return r.server.Stats().ConnectionsIn == 0 })
		r.ok(t, r.read(buf))
	}
}
