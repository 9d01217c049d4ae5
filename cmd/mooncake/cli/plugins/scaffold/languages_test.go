package scaffold

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// manifestOf finds the manifest of a module.
func manifestOf(t require.TestingT, files map[string][]byte) []byte {
	for path, text := range files {
		if filepath.Base(path) == "manifest.json" {
			return text
		}
	}
	require.FailNow(t, "no manifest")
	return nil
}

// others lists each language but Go, with its kinds.
func others() (out []Options) {
	for _, language := range Languages()[1:] {
		for _, kind := range Kinds(language) {
			out = append(out, Options{ID: plugin.ID{Kind: kind}, Language: language})
		}
	}
	return out
}

// TestOtherLanguages: whatever the plugin is called, no template is left, the manifest says who it is, and
// README, manifest and code name the same settings and files.
func TestOtherLanguages(t *testing.T) {
	dir, err := filepath.Abs(sdkDir)
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		o := rapid.SampledFrom(others()).Draw(rt, "kind")
		o.ID.Name = rapid.StringMatching(`[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9}){0,2}`).Draw(rt, "name")
		o.SDK = SDK{Dir: dir}
		files, err := Files(o)
		require.NoError(rt, err)
		code := ""
		for path, text := range files {
			assert.NotContains(rt, string(text), "[[", path)
			if ext := filepath.Ext(path); ext == ".py" || ext == ".rs" {
				code += string(text)
			}
		}
		text := manifestOf(rt, files)
		m, err := plugin.ScanManifest(text)
		require.NoError(rt, err)
		assert.Equal(rt, o.ID, m.ID)
		var schema struct {
			Config struct{ Properties map[string]any } `json:"config_schema"`
		}
		require.NoError(rt, json.Unmarshal(text, &schema))
		require.NotEmpty(rt, schema.Config.Properties)
		readme := string(files["README.md"])
		for name := range schema.Config.Properties {
			assert.Contains(rt, readme, "| `"+name+"` |")
			assert.Contains(rt, code, name+": ")
		}
		for line := range strings.Lines(readme) {
			if name, ok := strings.CutPrefix(line, "| `"); ok {
				name, _, _ = strings.Cut(name, "`")
				_, setting := schema.Config.Properties[name]
				assert.True(rt, setting || files[name] != nil, "README names %s", name)
			}
		}
	})
}

// TestALibraryOfARelease: a module depends on the released version of the program that wrote it, or on a folder.
func TestALibraryOfARelease(t *testing.T) {
	for _, o := range others() {
		o.ID.Name, o.SDK = "mine", SDK{Version: "v1.2.3"}
		files, err := Files(o)
		require.NoError(t, err)
		depends := map[string]string{"python": "requirements.txt", "rust": "Cargo.toml"}[o.Language]
		assert.Contains(t, string(files[depends]), "1.2.3")
		assert.NotContains(t, string(files[depends]), "v1.2.3")
		assert.NotContains(t, string(files[".github/workflows/ci.yml"]), "one machine")
	}
}

func TestAFolderThatNoFileCanName(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "with space")
	real, err := filepath.Abs(sdkDir)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(real, odd))
	for _, o := range others() {
		o.ID.Name, o.SDK = "mine", SDK{Dir: odd}
		_, err := Files(o)
		assert.ErrorContains(t, err, "cannot name")
	}
}
