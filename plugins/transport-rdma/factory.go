package rdma

import (
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Factory makes RDMA transports; see Config for the settings. A transport made by it also
// implements transport.Upstream, transport.Changing and StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	}, plugin.WithCheck(check))
}

// Config holds the settings of the RDMA transport.
type Config = config.Config

// DefaultConfig returns the defaults. Those that the reference implementation has too are
// the same.
func DefaultConfig() *Config { return config.Default() }
