package fifo

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

//go:generate go run ./cmd/mooncake-plugin-evict-fifo --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// Config is the plugin's part of the configuration.
type Config struct {
	ExpectedObjects int `json:"expected_objects" default:"1024" range:"0..16777216" doc:"objects to reserve space for at the start"`
}

// Validate implements plugin.Config, for rules that the tags cannot express.
func (*Config) Validate() error { return nil }

// Factory returns the factory of evict/fifo.
func Factory() evict.Factory {
	return evict.Define(plugin.MustParseManifest(manifestJSON), plugin.Defaults[Config],
		func(c *Config) (evict.Policy, error) { return newPolicy(c), nil })
}
