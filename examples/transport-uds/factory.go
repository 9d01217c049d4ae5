package uds

import "github.com/mooncake-go/mooncake/sdk/transport"

// Factory returns the factory of transport/uds; see Config for the settings.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	})
}
