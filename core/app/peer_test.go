package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func settings(t *testing.T, change func(*config.Config)) config.Config {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleStore})
	require.NoError(t, err)
	cfg := loaded.Config
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func builtins() []plugin.Factory { return []plugin.Factory{tcp.Factory()} }

var quiet = slog.New(slog.DiscardHandler)

func TestTransportsLearnTheNodesHost(t *testing.T) {
	id := plugin.ID{Kind: plugin.KindTransport, Name: "tcp"}
	advertised := func(change func(*config.Config)) any {
		p := &peer{cfg: settings(t, change), log: quiet}
		return p.transportSpec(id, builtins()).Config["advertise"]
	}
	assert.Nil(t, advertised(nil), "the default name says nothing about the address")
	assert.Equal(t, []any{"10.0.0.7"}, advertised(func(c *config.Config) { c.Store.LocalHostname = "10.0.0.7" }))
	assert.Equal(t, []any{"node-7"}, advertised(func(c *config.Config) { c.Store.LocalHostname = "node-7:12345" }))
	assert.Equal(t, []any{"192.168.0.7"}, advertised(func(c *config.Config) {
		c.Store.LocalHostname = "10.0.0.7"
		c.Plugins.Transport = map[string]config.Plugin{"tcp": {Config: map[string]any{"advertise": []any{"192.168.0.7"}}}}
	}), "what is configured stays")
}

func TestLoopbackNodesListenOnLoopback(t *testing.T) {
	id := plugin.ID{Kind: plugin.KindTransport, Name: "tcp"}
	bound := func(name string) any {
		p := &peer{cfg: settings(t, func(c *config.Config) { c.Store.LocalHostname = name }), log: quiet}
		return p.transportSpec(id, builtins()).Config["host"]
	}
	assert.Equal(t, "127.0.0.1", bound("127.0.0.1:12345"))
	assert.Equal(t, "::1", bound("[::1]:12345"))
	assert.Equal(t, "", bound("10.0.0.7"))
	assert.Equal(t, "", bound("node-7:12345"))
}

func TestAMissingTransportIsFatalOnlyWhereRequired(t *testing.T) {
	_, err := newPeer(settings(t, func(c *config.Config) { c.Store.Transports = []string{"rdma", "tcp"} }), builtins(), quiet)
	assert.ErrorContains(t, err, "transport/rdma")
	p, err := newPeer(settings(t, func(c *config.Config) {
		c.Store.Transports = []string{"rdma", "tcp"}
		c.Plugins.Transport = map[string]config.Plugin{"rdma": {Mode: config.ModeAuto, Required: false}}
	}), builtins(), quiet)
	require.NoError(t, err)
	assert.Len(t, p.carriers, 1)
}

func TestPluginFoldersMustNotDependOnTheWorkingDirectory(t *testing.T) {
	cfg := settings(t, func(c *config.Config) { c.Plugins.Dirs = []string{"plugins"} })
	_, err := Catalog(cfg, builtins(), quiet)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	assert.ErrorContains(t, err, "absolute")
}

// TestOpenClientLeavesNothingBehind: a client that cannot start gives everything back.
func TestOpenClientLeavesNothingBehind(t *testing.T) {
	cfg := settings(t, func(c *config.Config) { c.Store.LocalHostname = "127.0.0.1"; c.Store.MetadataServer = "P2PHANDSHAKE" })
	c, err := OpenClient(t.Context(), cfg, builtins(), ClientOptions{Log: quiet})
	require.NoError(t, err)
	require.NoError(t, c.Close(context.Background()))
	cfg.Store.MasterServerAddress = "nowhere"
	_, err = OpenClient(t.Context(), cfg, builtins(), ClientOptions{Log: quiet})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
}
