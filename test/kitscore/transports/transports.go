// Package transports seeds bugs into transport/tcp.
package transports

import (
	_ "embed" // for manifest.json
	"errors"
	"fmt"

	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

//go:embed manifest.json
var manifestJSON string

// Config holds the settings of the transport.
type Config struct {
	kitscore.Settings
	// Lanes is a setting without effect, for the bugs of settings.
	Lanes int `json:"lanes"`
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	high := 8
	switch c.Bug {
	case "setting-renamed":
		if c.Lanes != 0 {
			return errors.New("unknown setting lanes")
		}
	case "setting-bound":
		high = 7
	case "setting-open":
		high = 9
	}
	if c.Lanes < 0 || c.Lanes > high {
		return fmt.Errorf("lanes is %d, must be from 0 to %d", c.Lanes, high)
	}
	return c.Check(scored())
}

// Factory returns the factory of the program.
func Factory() transport.Factory {
	inner := tcp.Factory()
	return transport.Define(plugin.MustParseManifest(manifestJSON), func() *Config { return &Config{} }, func(c *Config) (transport.Transport, error) {
		settings, err := settingsOf(inner)
		if err != nil {
			return nil, err
		}
		t, err := inner.New(settings)
		if err != nil {
			return nil, err
		}
		b := &bent{Transport: t, port: settings.Port}
		if c.Bug != "" {
			bugs()[c.Bug].bend(b)
		}
		return b, nil
	})
}

// settingsOf returns the settings of the correct transport.
func settingsOf(f transport.Factory) (*tcp.Config, error) {
	settings, ok := f.DefaultConfig().(*tcp.Config)
	if !ok {
		return nil, fmt.Errorf("%s has other settings than expected", f.Manifest().ID)
	}
	settings.Host, settings.MaxInflightBytes = "127.0.0.1", 4<<20
	upstream := false
	settings.Upstream = &upstream
	var err error
	settings.Port, err = freePort()
	return settings, err
}

// Kind returns the transport with its bugs.
func Kind() kitscore.Kind {
	return kitscore.Kind{
		ID: plugin.ID{Kind: plugin.KindTransport, Name: "mutant"}, Package: "./test/kitscore/transports/program",
		Bugs: scored(),
		Suite: func(bug string) conformance.Suite {
			return transporttest.Suite(Factory(), transporttest.WithConfig(func() plugin.Config {
				return &Config{Settings: kitscore.Settings{Bug: bug}}
			}))
		},
	}
}
