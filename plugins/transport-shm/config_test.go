package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

func TestConfigRefuses(t *testing.T) {
	require.NoError(t, plugin.Validate(DefaultConfig()))
	for want, change := range map[string]func(*Config){
		`access is "group"`:          func(c *Config) { c.Access = "group" },
		"workers is -1":              func(c *Config) { c.Workers = -1 },
		"workers is 65":              func(c *Config) { c.Workers = 65 },
		"slice_bytes is 65535":       func(c *Config) { c.SliceBytes = 65535 },
		"max_inflight_bytes is 4095": func(c *Config) { c.MaxInflightBytes = 4095 },
		"max_inflight_ops is 0":      func(c *Config) { c.MaxInflightOps = 0 },
		"max_mappings is 0":          func(c *Config) { c.MaxMappings = 0 },
		"max_connections is 0":       func(c *Config) { c.MaxConnections = 0 },
		"op_timeout is 0s":           func(c *Config) { c.OpTimeout = 0 },
		"dial_timeout is 0s":         func(c *Config) { c.DialTimeout = 0 },
		"handshake_timeout is 0s":    func(c *Config) { c.HandshakeTimeout = 0 },
		"revoke_timeout is 48h0m0s":  func(c *Config) { c.RevokeTimeout = plugin.Duration(48 * time.Hour) },
	} {
		c := DefaultConfig()
		change(c)
		require.ErrorContains(t, plugin.Validate(c), want)
	}
}

// withMode is a host with a security mode.
type withMode struct{ quiet }

func (withMode) Security() security.Settings { return security.Settings{Mode: security.ModeMTLS} }

// TestSecurityModeNeedsTheUser: with a security mode only processes of this user and root may be peers.
func TestSecurityModeNeedsTheUser(t *testing.T) {
	for access, refused := range map[string]bool{AccessUser: false, AccessAny: true} {
		c := DefaultConfig()
		c.Access = access
		n := newNode(*c)
		err := n.Start(t.Context(), withMode{})
		if refused {
			require.ErrorContains(t, err, "access is any")
			require.ErrorContains(t, err, "security.mode is mtls")
			continue
		}
		require.NoError(t, err)
		require.NoError(t, n.Stop(t.Context()))
	}
}
