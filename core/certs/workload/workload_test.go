package workload_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	api "github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/certs/workload"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is a server of the Workload API.
type agent struct {
	api.UnimplementedSpiffeWorkloadAPIServer
	mu   sync.Mutex
	next *api.X509SVIDResponse // nil for no identity
	news chan struct{}         // closed with the next change
}

func (a *agent) set(r *api.X509SVIDResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = r
	close(a.news)
	a.news = make(chan struct{})
}

func (a *agent) FetchX509SVID(_ *api.X509SVIDRequest, s grpc.ServerStreamingServer[api.X509SVIDResponse]) error {
	if head, _ := metadata.FromIncomingContext(s.Context()); len(head.Get("workload.spiffe.io")) == 0 {
		return status.Error(codes.InvalidArgument, "security header missing")
	}
	for {
		a.mu.Lock()
		r, news := a.next, a.news
		a.mu.Unlock()
		if r == nil {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := s.Send(r); err != nil {
			return err
		}
		select {
		case <-news:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

// serve runs an agent until the test ends, and returns it with its address.
func serve(t *testing.T) (*agent, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	a, s := &agent{news: make(chan struct{})}, grpc.NewServer()
	api.RegisterSpiffeWorkloadAPIServer(s, a)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-done)
	})
	return a, "unix://" + path
}

// issued is an answer with certificates of an authority, one for each URI.
func issued(t *testing.T, a *securitytest.Authority, uris ...string) *api.X509SVIDResponse {
	t.Helper()
	r := &api.X509SVIDResponse{}
	for _, uri := range uris {
		f := a.Issue(t, securitytest.Certificate{URI: uri, Alone: true})
		r.Svids = append(r.Svids, &api.X509SVID{SpiffeId: uri, X509Svid: der(t, f.Cert), X509SvidKey: der(t, f.Key), Bundle: der(t, a.Own)})
	}
	return r
}

func der(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}

const (
	store = "spiffe://test/mooncake/store/a"
	other = "spiffe://test/ns/llm/sa/engine"
)

// TestFollow: the files have what the agent says, a Keeper takes them up, and trouble of the agent leaves them.
func TestFollow(t *testing.T) {
	a, socket := serve(t)
	first, second := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	a.set(issued(t, first, other, store))
	dir := filepath.Join(t.TempDir(), "certs")
	ctx, cancel := context.WithCancel(t.Context())
	var log logbuf.Buffer
	ready, done := make(chan *x509svid.SVID, 1), make(chan error, 1)
	go func() {
		done <- workload.Follow(ctx, workload.Options{Socket: socket, Folder: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}, func(s *x509svid.SVID) { ready <- s })
	}()
	require.Equal(t, store, (<-ready).ID.String(), "the identity with a role")
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	k, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: workload.Files(dir), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	id, err := k.Identity()
	require.NoError(t, err)
	assert.Equal(t, store, id.URI())

	a.set(issued(t, second, store))
	require.Eventually(t, func() bool { return k.Look() }, time.Minute, time.Millisecond)
	require.Equal(t, certificate(t, second.Own).Subject.String(), k.Present().Leaf.Issuer.String())
	before := k.Present().Leaf
	a.set(nil)
	require.Eventually(t, func() bool { return log.Count("no identity issued") > 0 }, time.Minute, time.Millisecond)
	assert.False(t, k.Look(), "the files stay")
	assert.True(t, before.Equal(certificate(t, workload.Files(dir).Cert)))
	cancel()
	require.NoError(t, <-done)
}

func certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der(t, name))
	require.NoError(t, err)
	return c
}

// TestTroubleAtTheBegin is told within bounds.
func TestTroubleAtTheBegin(t *testing.T) {
	_, deny := serve(t)
	good, socket := serve(t)
	good.set(issued(t, securitytest.NewAuthority(t), other))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		o     workload.Options
		error string
		hint  string
	}{
		"no agent":     {workload.Options{Socket: "unix://" + file + ".sock"}, "no certificate within", "does the agent run"},
		"no identity":  {workload.Options{Socket: deny}, "no identity issued", "register an entry"},
		"no socket":    {workload.Options{Socket: "nonsense"}, "nonsense", "unix:///PATH"},
		"not a folder": {workload.Options{Socket: socket, Folder: file}, "not a directory", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.o.Folder == "" {
				c.o.Folder = t.TempDir()
			}
			c.o.Wait = 300 * time.Millisecond
			err := workload.Follow(t.Context(), c.o, nil)
			require.ErrorContains(t, err, c.error)
			assert.ErrorContains(t, err, c.hint)
		})
	}
	var log logbuf.Buffer
	require.NoError(t, workload.Follow(t.Context(), workload.Options{Socket: socket, Folder: t.TempDir(), Once: true, Log: slog.New(slog.NewTextHandler(&log, nil))}, nil))
	assert.Contains(t, log.String(), "--security_allow store=uri:"+other)
}
