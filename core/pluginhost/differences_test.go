package pluginhost

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// TestManifestAndProgramDiffer: a host runs a program whose manifest is not what it accepts, and warns of each difference.
func TestManifestAndProgramDiffer(t *testing.T) {
	program, err := os.ReadFile(faultyDir + "/" + faultyEvict.BinaryName())
	require.NoError(t, err)
	for _, x := range []struct{ name, in, out, want string }{
		{"renamed", `"daemon": {`, `"demons": {`, "only the manifest has the setting demons"},
		{"default", `"print": {"type": "integer", "default": 0}`, `"print": {"type": "integer", "default": 5}`, "the default of print is 5 in the manifest, and 0 in the program"},
		{"same", "", "", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir, out := testplugin.Folder(t), program
			if x.want != "" {
				out = bytes.Replace(program, []byte(x.in), []byte(x.out), 1)
				require.NotEqual(t, program, out)
			}
			testplugin.Put(t, dir, faultyEvict.BinaryName(), out)
			var log bytes.Buffer
			c, err := New(nil, Options{Dirs: []string{dir}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			found, err := c.Differences(t.Context(), faultyEvict, Spec{})
			require.NoError(t, err)
			require.NoError(t, c.Close(t.Context()))
			if x.want == "" {
				assert.Empty(t, found)
				assert.NotContains(t, log.String(), "difference")
				return
			}
			assert.Contains(t, found, x.want)
			assert.Contains(t, log.String(), "level=WARN")
			assert.Contains(t, log.String(), x.want)
		})
	}
}

// TestDifferencesOfNothing: what is linked in is asked without a process, and what is not there is an error.
func TestDifferencesOfNothing(t *testing.T) {
	m := testplugin.Manifest(lru(), 1)
	m.ConfigSchema = json.RawMessage(`{"properties":{"dept":{}}}`)
	c := catalog(t, []plugin.Factory{evict.Define(m, plugin.Defaults[ownConfig],
		func(*ownConfig) (evict.Policy, error) { t.Error("nothing is made"); return nil, nil })})
	found, err := c.Differences(t.Context(), lru(), Spec{})
	require.NoError(t, err)
	assert.Equal(t, []string{"only the manifest has the setting dept", "only the program has the setting depth"}, found)
	_, err = c.Differences(t.Context(), faultyEvict, Spec{})
	assert.ErrorContains(t, err, faultyEvict.String())
}
