// Package transports seeds bugs into transport/tcp.
package transports

import (
	_ "embed" // for manifest.json
	"strconv"

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
	// Port is for a peer that is started again at its address.
	Port int `json:"port"`
}

// Validate implements plugin.Config.
func (c *Config) Validate() error { return c.Check(scored()) }

// Factory returns the factory of the program.
func Factory() transport.Factory {
	inner := tcp.Factory()
	return transport.Define(plugin.MustParseManifest(manifestJSON), func() *Config { return &Config{} }, func(c *Config) (transport.Transport, error) {
		settings, err := settingsOf(inner, c)
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
func settingsOf(f transport.Factory, c *Config) (*tcp.Config, error) {
	settings, ok := f.DefaultConfig().(*tcp.Config)
	if !ok {
		return nil, strconv.ErrSyntax
	}
	settings.Host, settings.MaxInflightBytes = "127.0.0.1", 4<<20
	upstream := false
	settings.Port, settings.Upstream = c.Port, &upstream
	return settings, nil
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
