// Package transports seeds bugs into transport/tcp.
package transports

import (
	"bytes"
	_ "embed" // for manifest.json
	"encoding/json"
	"errors"
	"fmt"

	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

//go:generate go run ./program --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// Config holds the settings of the transport.
type Config struct {
	lanes
	bug string
}

type lanes struct {
	Lanes int `json:"lanes" default:"2" range:"0..8" doc:"without effect"`
}

// SettingsSchema implements plugin.Described: some bugs are that the program has other settings than its manifest.
func (c *Config) SettingsSchema() (json.RawMessage, error) {
	schema, err := plugin.SchemaOf(&struct {
		lanes
		plugin.NoConfig
	}{lanes: c.lanes})
	if other, ok := otherSettings[c.bug]; ok {
		schema = bytes.ReplaceAll(schema, []byte(other[0]), []byte(other[1]))
	}
	return schema, err
}

// otherSettings is what the schema of the program has, and what it has with a bug.
var otherSettings = map[string][2]string{
	"program-renamed": {`"lanes":`, `"lane":`},
	"program-default": {`"default":2`, `"default":3`},
	"program-minimum": {`"minimum":0`, `"minimum":1`},
	"program-maximum": {`"maximum":8`, `"maximum":7`},
	"setting-open":    {`"maximum":8`, `"maximum":9`},
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	high := 9
	switch c.bug {
	case "setting-renamed":
		if c.Lanes != 2 {
			return errors.New("unknown setting lanes")
		}
	case "setting-bound":
		high = 7
	}
	if c.Lanes > high {
		return fmt.Errorf("lanes is %d, must be at most %d", c.Lanes, high)
	}
	return nil
}

// Factory returns the factory of the program.
func Factory(named string) transport.Factory {
	inner := tcp.Factory()
	return transport.Define(plugin.MustParseManifest(manifestJSON), func() *Config { return &Config{lanes{Lanes: 2}, named} }, func(*Config) (transport.Transport, error) {
		settings, err := settingsOf(inner)
		if err != nil {
			return nil, err
		}
		t, err := inner.New(settings)
		if err != nil {
			return nil, err
		}
		b := &bent{Transport: t, port: settings.Port}
		if named != "" {
			bugs()[named].bend(b)
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
			return transporttest.Suite(Factory(bug))
		},
	}
}
