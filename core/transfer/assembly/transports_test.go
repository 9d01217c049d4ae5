package assembly

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/topology"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func settings(t *testing.T, change func(*config.Config)) config.Config {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleStore})
	require.NoError(t, err)
	cfg := loaded.Config
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func builtins() []plugin.Factory { return []plugin.Factory{tcp.Factory()} }

var quiet = slog.New(slog.DiscardHandler)

// engineOf is an engine without transports.
func engineOf(cfg config.Config) *Engine {
	return &Engine{cfg: cfg, Deps: Deps{Devices: topology.NewChooser(cfg.Store, quiet), Log: quiet}}
}

// newEngine makes an engine with the components that it needs.
func newEngine(t *testing.T, cfg config.Config) (*Engine, error) {
	t.Helper()
	catalog, err := pluginhost.FromConfig(cfg, builtins(), quiet)
	require.NoError(t, err)
	host, err := memory.FromConfig(cfg.Store, quiet)
	require.NoError(t, err)
	return New(cfg, ByRange, Deps{Catalog: catalog, Devices: topology.NewChooser(cfg.Store, quiet), Host: host, Log: quiet})
}

func manifestOf(id plugin.ID, factories []plugin.Factory) plugin.Manifest {
	for _, f := range factories {
		if f.Manifest().ID == id {
			return f.Manifest()
		}
	}
	return plugin.Manifest{}
}

// offered returns the settings that a transport gets.
func offered(t *testing.T, id plugin.ID, factories []plugin.Factory, change func(*config.Config)) pluginhost.Spec {
	t.Helper()
	f := engineOf(settings(t, change))
	s, err := f.transportSpec(manifestOf(id, factories))
	require.NoError(t, err)
	return s
}

func tcpOffered(t *testing.T, setting string, change func(*config.Config)) any {
	return offered(t, plugin.ID{Kind: plugin.KindTransport, Name: "tcp"}, builtins(), change).Config[setting]
}

func TestTransportsLearnTheNodesHost(t *testing.T) {
	named := func(name string) func(*config.Config) {
		return func(c *config.Config) { c.Store.LocalHostname = name }
	}
	assert.Nil(t, tcpOffered(t, "advertise", nil), "the default name says nothing about the address")
	assert.Equal(t, []any{"10.0.0.7"}, tcpOffered(t, "advertise", named("10.0.0.7")))
	assert.Equal(t, []any{"node-7"}, tcpOffered(t, "advertise", named("node-7:12345")))
	assert.Equal(t, []any{"10.1.0.7"}, tcpOffered(t, "advertise", func(c *config.Config) {
		c.Store.LocalHostname, c.Store.AdvertiseHost = "10.0.0.7", "10.1.0.7"
	}))
	assert.Equal(t, []any{"192.168.0.7"}, tcpOffered(t, "advertise", func(c *config.Config) {
		c.Store.LocalHostname = "10.0.0.7"
		c.Plugins.Transport = map[string]config.Plugin{"tcp": {Config: map[string]any{"advertise": []any{"192.168.0.7"}}}}
	}), "what is configured stays")
}

func TestLoopbackNodesListenOnLoopback(t *testing.T) {
	assert.Equal(t, "", tcpOffered(t, "host", func(c *config.Config) {
		c.Store.LocalHostname, c.Store.AdvertiseHost = "127.0.0.1", "10.1.0.7"
	}), "peers are told an address that is not loopback")
	node := config.Store{AdvertiseHost: "10.1.0.7"}
	assert.Equal(t, "", open.FromConfig(node, "127.0.0.1:1", nil, quiet).BindHost, "nor is the handshake bound to loopback then")
	assert.Equal(t, "127.0.0.1", open.FromConfig(config.Store{}, "127.0.0.1:1", nil, quiet).BindHost)
	for name, want := range map[string]any{"127.0.0.1:12345": "127.0.0.1", "[::1]:12345": "::1", "10.0.0.7": "", "node-7:12345": ""} {
		assert.Equal(t, want, tcpOffered(t, "host", func(c *config.Config) { c.Store.LocalHostname = name }), name)
	}
}

func TestTransportsListenOnTheNodesPorts(t *testing.T) {
	ports := func(change func(*config.Config)) []any {
		return []any{tcpOffered(t, "port", change), tcpOffered(t, "port_max", change)}
	}
	assert.Equal(t, []any{15000, 17000}, ports(nil))
	assert.Equal(t, []any{20000, 20010}, ports(func(c *config.Config) { c.Store.RPCMinPort, c.Store.RPCMaxPort = 20000, 20010 }))
	assert.Equal(t, []any{int64(7000), nil}, ports(func(c *config.Config) {
		c.Plugins.Transport = map[string]config.Plugin{"tcp": {Config: map[string]any{"port": int64(7000)}}}
	}), "one port that is configured is no range")
}

// TestDefaultsOfAPluginAreNotGiven: the program loads the defaults of its plugins with the
// configuration, and what the node says still counts.
func TestDefaultsOfAPluginAreNotGiven(t *testing.T) {
	change := func(c *config.Config) {
		text, err := json.Marshal(tcp.Factory().DefaultConfig())
		require.NoError(t, err)
		var defaults map[string]any
		require.NoError(t, json.Unmarshal(text, &defaults))
		require.Contains(t, defaults, "port")
		c.Store.LocalHostname = "127.0.0.1"
		c.Plugins.Transport = map[string]config.Plugin{"tcp": {Config: defaults}}
	}
	assert.Equal(t, "127.0.0.1", tcpOffered(t, "host", change))
	assert.Equal(t, []any{"127.0.0.1"}, tcpOffered(t, "advertise", change))
	assert.Equal(t, 15000, tcpOffered(t, "port", change))
}

// TestDevicesAreOfferedToThoseWhoTakeThem: a transport without the setting is not asked to
// choose, so that its machine is not looked at.
func TestDevicesAreOfferedToThoseWhoTakeThem(t *testing.T) {
	id := plugin.ID{Kind: plugin.KindTransport, Name: "nic"}
	m := plugin.Manifest{
		Format: 1, ID: id, Version: "1.0.0", API: transport.API(), Summary: "Takes devices.", Stability: plugin.Experimental,
		ConfigSchema: json.RawMessage(`{"type":"object","properties":{"devices":{"type":"array"}}}`),
	}
	takes := []plugin.Factory{transport.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, nil)}
	assert.Contains(t, offered(t, id, takes, nil).Config, "devices")
	assert.Nil(t, tcpOffered(t, "devices", nil))
	assert.Equal(t, []any{"mlx5_7"}, offered(t, id, takes, func(c *config.Config) {
		c.Plugins.Transport = map[string]config.Plugin{"nic": {Config: map[string]any{"devices": []any{"mlx5_7"}}}}
	}).Config["devices"])
	f := engineOf(settings(t, func(c *config.Config) { c.Store.AutoDiscovery = "off" }))
	_, err := f.transportSpec(manifestOf(id, takes))
	assert.ErrorContains(t, err, "device", "discovery is off, and no device is named")
}

func TestAMissingTransportIsFatalOnlyWhereRequired(t *testing.T) {
	with := func(transports []string, required bool) (*Engine, error) {
		return newEngine(t, settings(t, func(c *config.Config) {
			c.Store.Transports = transports
			c.Plugins.Transport = map[string]config.Plugin{"missing": {Mode: config.ModeAuto, Required: required}}
		}))
	}
	p, err := with([]string{"missing", "tcp"}, false)
	require.NoError(t, err)
	assert.Len(t, p.carriers, 1)
	_, err = with([]string{"missing", "tcp"}, true)
	assert.ErrorContains(t, err, "transport/missing")
	_, err = with([]string{"missing"}, false)
	assert.ErrorContains(t, err, "transport/missing", "no other is left")
}

func TestWrongSettingsOfATransportAreFatal(t *testing.T) {
	_, err := newEngine(t, settings(t, func(c *config.Config) {
		c.Plugins.Transport = map[string]config.Plugin{"tcp": {Mode: config.ModeAuto, Config: map[string]any{"no_such": 1}}}
	}))
	assert.ErrorContains(t, err, "no_such")
}
