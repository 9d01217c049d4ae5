package fifo

import (
	_ "embed" // for manifest.json
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

//go:embed manifest.json
var manifestJSON string

// Config is the plugin's part of the configuration.
type Config struct {
	// ExpectedObjects is the number of objects to reserve space for at the start.
	ExpectedObjects int `json:"expected_objects"`
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.ExpectedObjects < 0 || c.ExpectedObjects > 1<<24 {
		return fmt.Errorf("expected_objects is %d, must be from 0 to %d", c.ExpectedObjects, 1<<24)
	}
	return nil
}

// Factory returns the factory of evict/fifo.
func Factory() evict.Factory {
	return evict.Define(plugin.MustParseManifest(manifestJSON),
		func() *Config { return &Config{ExpectedObjects: 1024} },
		func(c *Config) (evict.Policy, error) { return newPolicy(c), nil })
}
