package app

import (
	"crypto/rand"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// TestNodesOverMTLS: a store and a client with security.mode mtls move objects; a node without a certificate,
// or with one of another authority, which may ask the plaintext master of this test, gets none.
func TestNodesOverMTLS(t *testing.T) {
	ctx := t.Context()
	a := securitytest.NewAuthority(t)
	with := func(a *securitytest.Authority, role security.Role) config.Security {
		f := a.Issue(t, securitytest.Certificate{Role: role, Name: "a"})
		return config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key, Plaintext: []string{"rpc"}}
	}
	master := localMaster(t)
	var log logbuf.Buffer
	open := func(sec config.Security, size config.Size) (*Node, error) {
		cfg := nodeSettings(t, master, func(s *config.Store) { s.GlobalSegmentSize, s.MaxWaitTime = size, 0 })
		cfg.Security = sec
		return OpenNode(ctx, cfg, builtins(), NodeOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	}
	store, err := open(with(a, security.RoleStore), 16*config.MiB)
	require.NoError(t, err)
	defer closeNode(t, store)
	client, err := open(with(a, security.RoleClient), 0)
	require.NoError(t, err)
	defer closeNode(t, client)
	value := make([]byte, 1<<20)
	_, _ = rand.Read(value)
	require.NoError(t, client.Client.Put(ctx, "k", value, model.DefaultReplicateConfig()))
	for _, n := range []*Node{client, store} {
		got, err := n.Client.Get(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, value, got)
	}
	assert.Contains(t, log.String(), "security=mtls", "of the transport")
	assert.Contains(t, log.String(), "door=handshake")
	for name, sec := range map[string]config.Security{
		"no certificate": {Mode: "off"}, "another authority": with(securitytest.NewAuthority(t), security.RoleClient),
	} {
		n, err := open(sec, 0)
		require.NoError(t, err, name)
		_, err = n.Client.Get(ctx, "k")
		require.Error(t, err, name)
		t.Log(name, err)
		closeNode(t, n)
	}
}
