package quic

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Factory makes QUIC transports; see Config for the settings. A transport made by it
// also implements StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	})
}

// Config holds the settings of the QUIC transport.
type Config = config.Config

// DefaultConfig returns the defaults, which have no certificates: a transport made from
// them does not start.
func DefaultConfig() *Config { return config.Default() }

//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
