package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/config"
)

// TestUpstreamNamesReachSettingsOfPlugins: a variable of upstream that sets a plugin's
// setting names one that the plugin has.
func TestUpstreamNamesReachSettingsOfPlugins(t *testing.T) {
	settings := map[string]bool{}
	for _, f := range builtin.Plugins() {
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		m := f.Manifest()
		if len(m.ConfigSchema) > 0 {
			require.NoError(t, json.Unmarshal(m.ConfigSchema, &schema))
		}
		for name := range schema.Properties {
			settings["plugins."+m.Kind+"."+m.Name+".config."+name] = true
		}
	}
	checked := 0
	for _, table := range config.UpstreamReference() {
		for _, n := range table.Names {
			if strings.HasPrefix(n.Key, "plugins.") {
				require.True(t, settings[n.Key], "%s sets %s, which the plugin does not have", n.Name, n.Key)
				checked++
			}
		}
	}
	require.Positive(t, checked)
}
