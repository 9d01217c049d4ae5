package quic

import "github.com/mooncake-go/mooncake/sdk/transport"

// Factory makes QUIC transports; see Config for the settings. A transport made by it
// also implements StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	})
}
