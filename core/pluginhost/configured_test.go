package pluginhost_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// TestTheLockFileOfTheConfiguration: the settings plugins.lock and plugins.trust reach the catalog.
func TestTheLockFileOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // as folders of plugins are
	id := plugin.ID{Kind: plugin.KindEvict, Name: "some"}
	program := "#!/bin/false\n" + `{"mooncake_plugin` + `_manifest":1,"kind":"evict","name":"some","version":"1","api":[1],"summary":"s","stability":"beta"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, id.BinaryName()), []byte(program), 0o755)) //nolint:gosec // a program
	found := func(p config.Plugins) pluginhost.Entry {
		p.Dirs = []string{dir}
		c, err := pluginhost.FromConfig(config.Config{Plugins: p}, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		for _, e := range c.List() {
			if e.ID() == id {
				return e
			}
		}
		t.Fatal("not found")
		return pluginhost.Entry{}
	}
	lock := filepath.Join(dir, "plugins.lock.yaml")
	assert.Equal(t, plugin.StateAvailable, found(config.Plugins{Trust: "auto"}).State)
	assert.Equal(t, plugin.StateFailed, found(config.Plugins{Trust: "auto", Lock: lock}).State)
	assert.Equal(t, trust.FirstUse, found(config.Plugins{Trust: "tofu", Lock: lock}).Trust)
	assert.Equal(t, plugin.StateAvailable, found(config.Plugins{Trust: "off", Lock: lock}).State)
	for mode, want := range map[string]sandbox.Mode{"off": sandbox.ModeOff, "tls": sandbox.ModeAuto, "mtls": sandbox.ModeAuto} {
		cfg := config.Config{Plugins: config.Plugins{Trust: "auto", Sandbox: "auto"}, Security: config.Security{Mode: mode}}
		assert.Equal(t, want, pluginhost.SandboxOf(cfg), mode)
		assert.Equal(t, mode != "off", pluginhost.RulesOf(cfg).Resolve() == trust.ModeLocked, mode)
		cfg.Plugins.Sandbox = "require"
		assert.Equal(t, sandbox.ModeRequire, pluginhost.SandboxOf(cfg), mode)
	}
	_, err := pluginhost.FromConfig(config.Config{Plugins: config.Plugins{Trust: "locked"}}, nil, nil)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
}

func TestSpecOfAPlugin(t *testing.T) {
	got := pluginhost.SpecOf(config.Plugin{
		Mode: "subprocess", Env: []string{"A"}, Read: []string{"/r"}, Write: []string{"/w"}, Config: map[string]any{"x": 1},
		Limits: config.PluginLimits{Memory: config.GiB, Files: 2, Processes: 3, CPU: 1.5, Required: true},
	})
	assert.Equal(t, pluginhost.Spec{
		Mode: pluginhost.ModeSubprocess, Env: []string{"A"}, Read: []string{"/r"}, Write: []string{"/w"}, Config: map[string]any{"x": 1},
		Limits: launch.Limits{Memory: 1 << 30, Files: 2, Processes: 3, CPU: 1.5, Required: true},
	}, got)
}

func TestPluginFoldersMustNotDependOnTheWorkingDirectory(t *testing.T) {
	cfg := config.Config{Plugins: config.Plugins{Dirs: []string{"plugins"}}}
	_, err := pluginhost.FromConfig(cfg, nil, slog.New(slog.DiscardHandler))
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	assert.ErrorContains(t, err, "absolute")
}
