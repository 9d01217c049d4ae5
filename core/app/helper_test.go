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
