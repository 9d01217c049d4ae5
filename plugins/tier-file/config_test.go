package file

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestConfigRefuses(t *testing.T) {
	none, err := Factory().New(DefaultConfig())
	require.NoError(t, err)
	require.ErrorContains(t, none.Start(t.Context(), newHost()), "path is empty")
	good := DefaultConfig()
	good.Path = "/x"
	require.NoError(t, plugin.Validate(good))
	_, err = Factory().New(good)
	require.NoError(t, err)
	for want, change := range map[string]func(*Config){
		`path is "x"`:                 func(c *Config) { c.Path = "x" },
		"capacity_bytes is 1048575":   func(c *Config) { c.Capacity = 1<<20 - 1 },
		"capacity_bytes is 112589990": func(c *Config) { c.Capacity = 1<<50 + 1 },
		`io is "aio"`:                 func(c *Config) { c.IO = "aio" },
		"staging_bytes is 1":          func(c *Config) { c.StagingBytes = 1 },
		"max_inflight_ops is 0":       func(c *Config) { c.MaxInflightOps = 0 },
		"op_timeout is 48h0m0s":       func(c *Config) { c.OpTimeout = plugin.Duration(48 * time.Hour) },
	} {
		c := *good
		change(&c)
		require.ErrorContains(t, plugin.Validate(&c), want)
		_, err := Factory().New(&c)
		require.Error(t, err)
	}
}
