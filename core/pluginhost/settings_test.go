package pluginhost

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

type ownConfig struct {
	Depth int `json:"depth"`
}

func (*ownConfig) Validate() error { return nil }

// TestSettingsAreCheckedWithoutRunning: those of plugins that are linked in or found, selected or not.
func TestSettingsAreCheckedWithoutRunning(t *testing.T) {
	const closed = `{"type":"object","additionalProperties":false,"properties":{"depth":{"type":"integer"},
		"inner":{"type":"object","additionalProperties":false,"properties":{"rate":{}}},"free":{"type":"object"}}}`
	dir := testplugin.Folder(t)
	for name, schema := range map[string]string{"closed": closed, "open": `{"properties":{"depth":{}}}`, "silent": ""} {
		id := plugin.ID{Kind: plugin.KindEvict, Name: name}
		m := testplugin.Manifest(id, 1)
		if schema != "" {
			m.ConfigSchema = json.RawMessage(schema)
		}
		testplugin.Put(t, dir, id.BinaryName(), testplugin.Script(t, m))
	}
	linked := evict.Define(testplugin.Manifest(plugin.ID{Kind: plugin.KindEvict, Name: "linked"}, 1), func() *ownConfig { return &ownConfig{} },
		func(*ownConfig) (evict.Policy, error) { t.Error("nothing is made"); return nil, nil })
	c, err := New([]plugin.Factory{linked}, Options{Dirs: []string{dir}})
	require.NoError(t, err)
	for _, x := range []struct {
		name, config, want string
	}{
		{"closed", `{"depth":1,"inner":{"rate":2},"free":{"any":3}}`, ""},
		{"closed", `{"dept":1}`, `plugins.evict.closed.config: INVALID_PARAMS: unknown setting "dept": did you mean "depth"?`},
		{"closed", `{"inner":{"rat":1}}`, `unknown setting "inner.rat": did you mean "rate"?`},
		{"closed", `{"other":1}`, `the settings here are depth, free, inner`},
		{"open", `{"other":1}`, ""},
		{"silent", `{"other":1}`, ""},
		{"missing", `{"other":1}`, ""},
		{"linked", `{"depth":1}`, ""},
		{"linked", `{"dept":1}`, `unknown setting "dept": did you mean "depth"?`},
		{"linked", `{"depth":"x"}`, `depth`},
	} {
		var settings map[string]any
		require.NoError(t, json.Unmarshal([]byte(x.config), &settings))
		err := c.CheckSettings(config.Plugins{Evict: map[string]config.Plugin{x.name: {Config: settings}}})
		if x.want == "" {
			require.NoError(t, err, x)
			continue
		}
		require.ErrorContains(t, err, x.want)
	}
	assert.Empty(t, c.Instances())
}

func FuzzUnknownSetting(f *testing.F) {
	f.Add(`{"additionalProperties":false,"properties":{"a":{"properties":{"b":{}}}}}`, `{"a":{"b":{"c":1}}}`)
	f.Add(`[]`, `{"a":null}`)
	f.Fuzz(func(t *testing.T, schema, settings string) {
		var s any
		var c map[string]any
		if json.Unmarshal([]byte(schema), &s) == nil && json.Unmarshal([]byte(settings), &c) == nil {
			_ = unknownSetting(s, c, "")
		}
	})
}
