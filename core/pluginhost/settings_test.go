package pluginhost

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

type ownConfig struct {
	Depth int `json:"depth" default:"1"`
}

func (c *ownConfig) Validate() error {
	if c.Depth == 0 {
		return errors.New("depth is 0, must not be")
	}
	return nil
}

// TestSettingsAreCheckedWithoutRunning: those of plugins that are linked in or found, selected or not.
func TestSettingsAreCheckedWithoutRunning(t *testing.T) {
	const closed = `{"type":"object","additionalProperties":false,"properties":{"depth":{"type":"integer","minimum":1,"maximum":8},
		"how":{"enum":["fast","safe"]},"pause":{"type":"string","format":"go-duration","formatMaximum":"1s"},"token":{"type":"string"},
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
	linked := evict.Define(testplugin.Manifest(plugin.ID{Kind: plugin.KindEvict, Name: "linked"}, 1), plugin.Defaults[ownConfig],
		func(*ownConfig) (evict.Policy, error) { t.Error("nothing is made"); return nil, nil })
	c, err := New([]plugin.Factory{linked}, Options{Dirs: []string{dir}})
	require.NoError(t, err)
	for _, x := range []struct {
		name, config string
		want         []string // FILE:LINE: is added
	}{
		{"closed", "{depth: 1, how: safe, pause: 1s, inner: {rate: 2}, free: {any: 3}}", nil},
		{"closed", "\n        dept: 1\n        other: 2", []string{
			`:5: plugins.evict.closed.config.dept: unknown setting "dept": did you mean "depth"?`,
			`:6: plugins.evict.closed.config.other: unknown setting "other": the settings here are depth, free, how, inner, pause, token`,
		}},
		{"closed", "\n        depth: 9\n        how: slow\n        pause: 2s", []string{
			`:5: plugins.evict.closed.config.depth: depth is 9, must be 1 to 8`,
			`:6: plugins.evict.closed.config.how: how is "slow", must be "fast" or "safe"`,
			`:7: plugins.evict.closed.config.pause: pause is 2s, must be at most 1s`,
		}},
		{"closed", "{depth: x}", []string{`:4: plugins.evict.closed.config.depth: depth is "x", must be a whole number`}},
		{"closed", "\n        pause: 5", []string{`:5: plugins.evict.closed.config.pause: pause is 5, must be a text`}},
		{"closed", "{token: 5}", []string{`:4: plugins.evict.closed.config.token: the plugin does not accept the value, which may be a secret`}},
		{"closed", "\n        inner:\n          rat: 1", []string{`:6: plugins.evict.closed.config.inner.rat: unknown setting "inner.rat": did you mean "rate"?`}},
		{"closed", "\n        inne:\n          rate: 1", []string{`:6: plugins.evict.closed.config.inne: unknown setting "inne": did you mean "inner"?`}},
		{"open", "{other: 1}", nil},
		{"silent", "{other: 1}", nil},
		{"missing", "{other: 1}", nil},
		{"linked", "{depth: 1}", nil},
		{"linked", "{dept: 1}", []string{`:4: plugins.evict.linked.config.dept: unknown setting "dept": did you mean "depth"?`}},
		{"linked", "{depth: x}", []string{`depth is "x", must be a whole number`}},
		{"linked", "{depth: 0}", []string{`:4: plugins.evict.linked.config: evict/linked: configure: INVALID_PARAMS: depth is 0, must not be`}},
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		text := "plugins:\n  evict:\n    " + x.name + ":\n      config: " + x.config + "\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		loaded, err := config.Check(config.RoleMaster, file, nil)
		require.NoError(t, err, text)
		err = c.CheckSettings(loaded)
		if x.want == nil {
			require.NoError(t, err, text)
			continue
		}
		var found config.Problems
		require.ErrorAs(t, err, &found, text)
		require.Len(t, found, len(x.want), "%v", err)
		for i, want := range x.want {
			assert.ErrorContains(t, found[i], want)
			assert.ErrorContains(t, found[i], file)
		}
	}
	assert.Empty(t, c.Instances())
}
