package prefix

import "github.com/mooncake-go/mooncake/sdk/evict"

// Factory returns the factory of evict/prefix.
func Factory() evict.Factory {
	return evict.Define(manifest(),
		func() *Config { return new(Config) },
		func(*Config) (evict.Policy, error) { return newPolicy(), nil })
}
