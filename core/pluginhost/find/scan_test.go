package find

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestManifestIsFoundAcrossWindows(t *testing.T) {
	m := testplugin.Manifest(plugin.ID{Kind: "evict", Name: "deep"}, 1)
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	for _, at := range []int{0, scanWindow - 20, scanWindow, 2*scanWindow - scanOverlap - 5, 3 * scanWindow} {
		file := strings.Repeat("\x00", at) + string(raw) + strings.Repeat("x", scanWindow)
		got, err := scanManifest(strings.NewReader(file), plugin.ID{})
		require.NoError(t, err, at)
		assert.Equal(t, m, got)
	}
	decoy := strings.Repeat(`{"mooncake_plugin_manifest":2}`+strings.Repeat(" ", scanWindow), maxDamaged+1)
	_, err = scanManifest(strings.NewReader(decoy+string(raw)), plugin.ID{})
	assert.ErrorContains(t, err, "format 2", "the search for a manifest among decoys is bounded")
}

// TestProgramsWithSeveralPlugins: the plugin that is asked for is found wherever it is, and its absence is told with what is there.
func TestProgramsWithSeveralPlugins(t *testing.T) {
	var file strings.Builder
	for _, name := range []string{"first", "second", "first", "third"} { // Windows overlap, so that one is seen twice.
		raw, err := json.Marshal(testplugin.Manifest(evictID(name), 1))
		require.NoError(t, err)
		file.WriteString(string(raw) + strings.Repeat("x", scanWindow))
	}
	for _, name := range []string{"first", "second", "third"} {
		m, err := scanManifest(strings.NewReader(file.String()), evictID(name))
		require.NoError(t, err)
		assert.Equal(t, evictID(name), m.ID)
	}
	_, err := scanManifest(strings.NewReader(file.String()), plugin.ID{})
	assert.EqualError(t, err, "the plugins evict/first, evict/second, evict/third are linked into it; name the file after the one that you mean, such as mooncake-plugin-evict-first")
	_, err = scanManifest(strings.NewReader(file.String()), evictID("fourth"))
	assert.EqualError(t, err, "the file is named after evict/fourth, but its manifests say evict/first, evict/second, evict/third")

	file.Reset()
	for i := range 2 * maxLinked {
		raw, err := json.Marshal(testplugin.Manifest(evictID(fmt.Sprintf("n%d", i)), 1))
		require.NoError(t, err)
		file.Write(raw)
	}
	_, err = scanManifest(strings.NewReader(file.String()), evictID("fourth"))
	assert.Equal(t, maxLinked, strings.Count(err.Error(), "evict/n"), "the list is bounded")
}

func FuzzScanManifest(f *testing.F) {
	f.Add([]byte(`x{"mooncake_plugin_manifest":1,"kind":"evict"}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, want := range []plugin.ID{{}, {Kind: "evict", Name: "x"}} {
			m, err := scanManifest(strings.NewReader(string(file)), want)
			if err == nil && m.Validate() != nil {
				t.Fatal("accepted an invalid manifest")
			}
			if err == nil && want.Kind != "" && m.ID != want {
				t.Fatalf("found %s instead of %s", m.ID, want)
			}
		}
	})
}
