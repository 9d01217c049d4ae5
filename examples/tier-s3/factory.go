package s3

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// It stays a string: a host looks for its bytes in the program.
//
//go:generate go run ./cmd/mooncake-plugin-tier-s3 --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// Factory returns the factory of tier/s3.
func Factory() tier.Factory {
	return tier.Define(plugin.MustParseManifest(manifestJSON), plugin.Defaults[Config],
		func(c *Config) (tier.Tier, error) { return newNode(c), nil })
}
