package s3

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// It stays a string: a host looks for its bytes in the program.
//
//go:embed manifest.json
var manifestJSON string

// Factory returns the factory of tier/s3.
func Factory() tier.Factory {
	return tier.Define(plugin.MustParseManifest(manifestJSON), defaults,
		func(c *Config) (tier.Tier, error) { return newNode(c), nil })
}
