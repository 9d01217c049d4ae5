package find

import (
	"encoding/json"
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
		got, err := scanManifest(strings.NewReader(file))
		require.NoError(t, err, at)
		assert.Equal(t, m, got)
	}
	decoy := strings.Repeat(`{"mooncake_plugin_manifest":2}`+strings.Repeat(" ", scanWindow), maxDamaged+1)
	_, err = scanManifest(strings.NewReader(decoy + string(raw)))
	assert.ErrorContains(t, err, "format 2", "the search for a manifest among decoys is bounded")
}

func FuzzScanManifest(f *testing.F) {
	f.Add([]byte(`x{"mooncake_plugin_manifest":1,"kind":"evict"}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := scanManifest(strings.NewReader(string(file)))
		if err == nil && m.Validate() != nil {
			t.Fatal("accepted an invalid manifest")
		}
	})
}
