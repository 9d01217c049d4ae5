package plugin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const manifest = `{"mooncake_plugin_manifest": 1,
	"kind": "evict", "name": "lru", "version": "0.1.0", "api": [1],
	"summary": "Least recently used", "stability": "beta", "capabilities": ["x"],
	"config_schema": {"type": "object"}}`

func TestParseManifest(t *testing.T) {
	m, err := plugin.ParseManifest(manifest)
	require.NoError(t, err)
	assert.Equal(t, "evict/lru", m.ID.String())
	assert.Equal(t, "mooncake-plugin-evict-lru", m.BinaryName())
	assert.True(t, m.Has("x"))
	assert.False(t, m.Has("y"))
}

func TestManifestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown key":   {`"version"`, `"versino"`, "versino"},
		"other format":  {`manifest": 1`, `manifest": 2`, "format 2"},
		"unknown kind":  {`"evict"`, `"evicter"`, `"evicter" is not one of`},
		"bad name":      {`"lru"`, `"L R U"`, "lower-case"},
		"no version":    {`"0.1.0"`, `""`, "no version"},
		"no api":        {`[1]`, `[]`, "contract version"},
		"no summary":    {`"Least recently used"`, `""`, "summary"},
		"bad stability": {`"beta"`, `"rock solid"`, "rock solid"},
		"not json":      {`"kind"`, `kind`, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugin.ParseManifest(strings.Replace(manifest, c.from, c.to, 1))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestAWrongManifestIsAnErrorAndNoPanic: of the factory, wherever it is defined.
func TestAWrongManifestIsAnErrorAndNoPanic(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"no stability": {`"stability": "beta", `, ``, "evict/lru: manifest has no stability; it must be experimental, beta or stable"},
		"no JSON":      {`"kind"`, `kind`, "invalid character"},
		"other kind":   {`"evict"`, `"alloc"`, "alloc/lru: the manifest is of a plugin of kind alloc, and it is defined as one of kind evict"},
	} {
		t.Run(name, func(t *testing.T) {
			m := plugin.MustParseManifest(strings.Replace(manifest, c.from, c.to, 1))
			f := evict.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, func(*plugin.NoConfig) (evict.Policy, error) { return nil, nil })
			assert.ErrorContains(t, f.Check(), c.want)
			_, err := f.New(f.DefaultConfig())
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzParseManifest: whatever a file has, there is an error or a manifest that validates.
func FuzzParseManifest(f *testing.F) {
	f.Add(manifest)
	f.Add(`{"mooncake_plugin_manifest":1,"kind":"evict","name":"x","api":[1],"version":"1.0.0","summary":"s"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := plugin.ParseManifest(text)
		if (err == nil) != (m.Validate() == nil) && err == nil {
			t.Fatalf("accepted a manifest that does not validate: %+v", m)
		}
		if must := plugin.MustParseManifest(text); (must.Validate() == nil) != (err == nil) {
			t.Fatalf("MustParseManifest says %v, ParseManifest %v", must.Validate(), err)
		}
	})
}

func TestScanFindsTheManifestInAProgram(t *testing.T) {
	noise := strings.Repeat("\x7fELF\x00{\"mooncake_plugin_manifest\":", 3)
	m, err := plugin.ScanManifest([]byte(noise + "\x00" + manifest + "\x00tail"))
	require.NoError(t, err)
	assert.Equal(t, "lru", m.Name)

	_, err = plugin.ScanManifest([]byte("\x7fELF nothing here"))
	assert.ErrorIs(t, err, plugin.ErrNoManifest)

	_, err = plugin.ScanManifest([]byte("..." + manifest[:60]))
	assert.ErrorContains(t, err, "damaged")
}

func FuzzScanManifest(f *testing.F) {
	f.Add([]byte(manifest))
	f.Add([]byte(`xx{"mooncake_plugin_manifest":{"mooncake_plugin_manifest":1}}`))
	f.Fuzz(func(t *testing.T, program []byte) {
		m, err := plugin.ScanManifest(program)
		if err == nil && m.Validate() != nil {
			t.Fatalf("scan accepted a manifest that does not validate: %+v", m)
		}
	})
}

func TestNegotiateAPI(t *testing.T) {
	v, err := plugin.NegotiateAPI([]uint{1, 2, 3}, []uint{2, 1})
	require.NoError(t, err)
	assert.EqualValues(t, 2, v)
	_, err = plugin.NegotiateAPI([]uint{1}, []uint{2})
	assert.ErrorContains(t, err, "this host speaks [1], the plugin [2]")
}

func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := plugin.ID{
			Kind: rapid.SampledFrom(plugin.Kinds()).Draw(t, "kind"),
			Name: rapid.StringMatching(`[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5}){0,3}`).Draw(t, "name"),
		}
		require.NoError(t, id.Validate())
		back, err := plugin.ParseID(id.String())
		require.NoError(t, err)
		assert.Equal(t, id, back)
		back, ok := plugin.ParseBinaryName(id.BinaryName())
		assert.True(t, ok)
		assert.Equal(t, id, back)
	})
	_, ok := plugin.ParseBinaryName("mooncake-plugin-evict")
	assert.False(t, ok)
	_, ok = plugin.ParseBinaryName("lru")
	assert.False(t, ok)
	_, err := plugin.ParseID("lru")
	assert.ErrorContains(t, err, "kind/name")
}
