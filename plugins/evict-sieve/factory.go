package sieve

import "github.com/mooncake-go/mooncake/sdk/evict"

// Factory returns the factory of evict/sieve.
func Factory() evict.Factory {
	return evict.Define(manifest(),
		func() *Config { return new(Config) },
		func(*Config) (evict.Policy, error) { return newPolicy(), nil })
}
