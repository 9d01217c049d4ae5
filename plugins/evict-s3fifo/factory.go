package s3fifo

import "github.com/mooncake-go/mooncake/sdk/evict"

// Factory returns the factory of evict/s3fifo.
func Factory() evict.Factory {
	return evict.Define(manifest(), DefaultConfig,
		func(c *Config) (evict.Policy, error) { return newPolicy(*c), nil })
}
