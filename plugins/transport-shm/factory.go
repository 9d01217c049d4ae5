package shm

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Factory makes shared-memory transports; see Config for the settings. A transport made by
// it also implements StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	}, plugin.WithCheck(func() error { _, err := wire.ThisHost(); return err }))
}

//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
