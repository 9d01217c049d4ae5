package rdma

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// Factory makes RDMA transports; see Config for the settings. A transport made by it also
// implements transport.Upstream, transport.Changing and StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	}, plugin.WithCheck(check))
}

// Config holds the settings of the RDMA transport.
type Config = config.Config

// DefaultConfig returns the defaults. Those that the reference implementation has too are
// the same.
func DefaultConfig() *Config { return config.Default() }

//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }

// check says why this machine has no use for the transport: no library, or no device. It
// opens neither a device nor a port, whose state may change until the transport starts.
func check() error { return checkWith("") }

func checkWith(library string) error {
	lib, err := verbs.Open(library)
	if err != nil {
		return fmt.Errorf("%w (%w)", told(advice.NoLibrary()), err)
	}
	devices, err := lib.Devices()
	if err == nil && len(devices) == 0 {
		return told(advice.NoDevice())
	}
	return err
}

// told is an advice in one line.
func told(a advice.Advice) error { return fmt.Errorf("%s; %s", a.Why, a.Do) }
