package scaffold

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// That a module builds, passes the suite and runs is in test/examples, with real programs.

const sdkDir = "../../../../../sdk"

func options(t testing.TB, kind, name string) Options {
	dir, err := filepath.Abs(sdkDir)
	require.NoError(t, err)
	return Options{ID: plugin.ID{Kind: kind, Name: name}, Module: "example.com/" + kind + "-" + name, SDK: SDK{Dir: dir}}
}

// TestEveryNameMakesAModule: whatever the plugin is called, the code parses, its packages
// agree, no import has the package's own name, and manifest and program say who it is.
func TestEveryNameMakesAModule(t *testing.T) {
	names := append([]string{
		"go", "type", "string", "main", "init", "a", "list", "context", "test", "my-test", "x-1-y", "sdk", "nil", "space",
		strings.Repeat("a", 32),
	}, imported...)
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(plugin.Kinds()).Draw(rt, "kind")
		name := rapid.OneOf(rapid.SampledFrom(names), rapid.StringMatching(`[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9}){0,2}`)).Draw(rt, "name")
		o := options(t, kind, name)
		files, err := Files(o)
		require.NoError(rt, err)
		pkg := ""
		for path, text := range files {
			assert.NotContains(rt, string(text), "[[", path)
			if !strings.HasSuffix(path, ".go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
			require.NoError(rt, err, "%s\n%s", path, text)
			if strings.HasPrefix(path, "cmd/") {
				assert.Equal(rt, "cmd/"+o.ID.BinaryName()+"/main.go", path)
				assert.Equal(rt, "main", f.Name.Name)
				continue
			}
			base := strings.TrimSuffix(f.Name.Name, "_test")
			if pkg == "" {
				pkg = base
			}
			assert.Equal(rt, pkg, base, path)
			assert.True(rt, token.IsIdentifier(base), base)
			noClash(rt, f, base, o.Module)
		}
		m, err := plugin.ParseManifest(string(files["manifest.json"]))
		require.NoError(rt, err)
		assert.Equal(rt, o.ID, m.ID)
		found, err := plugin.ScanManifest(files["manifest.json"])
		require.NoError(rt, err, "the manifest's first key is where a host looks for it")
		assert.Equal(rt, m, found)
	})
}

// noClash: the package's name is none of the others that a file uses.
func noClash(t require.TestingT, f *ast.File, pkg, module string) {
	for _, imp := range f.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		if path != module {
			assert.NotEqual(t, pkg, path[strings.LastIndex(path, "/")+1:], "import of %s", path)
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasSuffix(f.Name.Name, "_test") {
			assert.NotEqual(t, pkg, fn.Name.Name)
		}
	}
}

func TestModuleOfALocalSDK(t *testing.T) {
	o := options(t, "evict", "mine")
	files, err := Files(o)
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", files["go.mod"], nil)
	require.NoError(t, err)
	theirs, err := readMod(sdkDir)
	require.NoError(t, err)
	assert.Equal(t, o.Module, mod.Module.Mod.Path)
	assert.Equal(t, theirs.Go.Version, mod.Go.Version)
	require.Len(t, mod.Replace, 1)
	assert.Equal(t, o.SDK.Dir, mod.Replace[0].New.Path)
	want := map[string]string{SDKModule: "v0.0.0"}
	for _, r := range theirs.Require {
		want[r.Mod.Path] = r.Mod.Version
	}
	got := map[string]string{}
	for _, r := range mod.Require {
		got[r.Mod.Path] = r.Mod.Version
		assert.Equal(t, r.Mod.Path != SDKModule, r.Indirect, r.Mod.Path)
	}
	assert.Equal(t, want, got)
	sum, err := os.ReadFile(filepath.Join(sdkDir, "go.sum"))
	require.NoError(t, err)
	assert.Equal(t, string(sum), string(files["go.sum"]))
	assert.Contains(t, string(files[".github/workflows/ci.yml"]), "folder of this machine")
}

// TestAModuleInTheCheckout: its go.mod names the sdk by a relative path, so that it builds wherever the checkout is. Elsewhere the path
// is absolute, and go.mod says what to do on another machine.
func TestAModuleInTheCheckout(t *testing.T) {
	o := options(t, "evict", "mine")
	root := filepath.Dir(o.SDK.Dir)
	for dir, want := range map[string]string{
		filepath.Join(root, "mine"):             "../sdk",
		filepath.Join(root, "examples", "mine"): "../../sdk",
		filepath.Join(root, "sdk", "mine"):      "..",
		root + "-other/mine":                    o.SDK.Dir,
		t.TempDir():                             o.SDK.Dir,
		"":                                      o.SDK.Dir,
	} {
		o.Dir = dir
		files, err := Files(o)
		require.NoError(t, err)
		mod, err := modfile.Parse("go.mod", files["go.mod"], nil)
		require.NoError(t, err)
		require.Len(t, mod.Replace, 1)
		assert.Equal(t, want, mod.Replace[0].New.Path, dir)
		assert.Equal(t, want == o.SDK.Dir, strings.Contains(string(files["go.mod"]), "on this machine. Elsewhere: go mod edit"), dir)
	}
}

func TestModuleOfARelease(t *testing.T) {
	o := options(t, "alloc", "mine")
	o.SDK = SDK{Version: "v1.2.3"}
	files, err := Files(o)
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", files["go.mod"], nil)
	require.NoError(t, err)
	require.Len(t, mod.Require, 1)
	assert.Equal(t, SDKModule+"@v1.2.3", mod.Require[0].Mod.String())
	assert.Empty(t, mod.Replace)
	assert.NotContains(t, files, "go.sum")
	assert.NotContains(t, string(files[".github/workflows/ci.yml"]), "folder of this machine")
	assert.Contains(t, string(files[".github/workflows/ci.yml"]), "cmd/mooncake@v1.2.3 plugins conformance bin/linux-amd64/mooncake-plugin-alloc-mine\n")
	theirs, err := readMod(sdkDir)
	require.NoError(t, err)
	assert.Equal(t, theirs.Go.Version, goVersion, "what a released sdk needs")
}

func TestWhatIsRefused(t *testing.T) {
	empty := t.TempDir()
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "go.mod"), []byte("module example.com/other\n"), 0o600))
	for name, change := range map[string]func(*Options){
		"the plugin kind":  func(o *Options) { o.ID.Kind = "codec" },
		"plugin name":      func(o *Options) { o.ID.Name = "../x" },
		"the module path":  func(o *Options) { o.Module = "not a path" },
		"there is no sdk":  func(o *Options) { o.SDK.Dir = empty },
		"another module":   func(o *Options) { o.SDK.Dir = other },
		"neither a versio": func(o *Options) { o.SDK.Dir = "" },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "evict", "mine")
			change(&o)
			dir := filepath.Join(t.TempDir(), "new")
			_, err := Write(dir, o)
			require.Error(t, err)
			if name != "the plugin kind" {
				assert.ErrorContains(t, err, name)
			}
			left, err := os.ReadDir(filepath.Dir(dir))
			require.NoError(t, err)
			assert.Empty(t, left, "nothing is left behind")
		})
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	root := t.TempDir()
	o := options(t, "evict", "mine")

	full := filepath.Join(root, "full")
	require.NoError(t, os.MkdirAll(full, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(full, "notes"), []byte("mine"), 0o600))
	_, err := Write(full, o)
	assert.ErrorContains(t, err, "not empty: it holds notes")

	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	_, err = Write(file, o)
	require.Error(t, err)

	link := filepath.Join(root, "link")
	require.NoError(t, os.Symlink(full, link))
	_, err = Write(link, o)
	require.Error(t, err)
	for _, f := range []string{file, filepath.Join(full, "notes")} {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(text))
	}

	for _, dir := range []string{filepath.Join(root, "empty"), filepath.Join(root, "deep/er")} {
		if strings.HasSuffix(dir, "empty") {
			require.NoError(t, os.Mkdir(dir, 0o755))
		}
		names, err := Write(dir, o)
		require.NoError(t, err)
		var there []string
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(dir, path)
				there = append(there, rel)
				info, _ := d.Info()
				assert.Zero(t, info.Mode()&0o022, "only the owner may write %s", rel)
			}
			return err
		}))
		assert.ElementsMatch(t, names, there)
		_, err = Write(dir, o)
		assert.ErrorContains(t, err, "not empty", "not even what it wrote itself")
	}
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, left, 5, "no temporary folder is left")
}

// TestSchemasSayWhatTheSettingsAre: each setting of a manifest's schema is in the README,
// and the reverse.
func TestSchemasSayWhatTheSettingsAre(t *testing.T) {
	for _, kind := range plugin.Kinds() {
		files, err := Files(options(t, kind, "mine"))
		require.NoError(t, err)
		var m struct {
			Schema struct{ Properties map[string]any } `json:"config_schema"`
		}
		require.NoError(t, json.Unmarshal(files["manifest.json"], &m))
		require.NotEmpty(t, m.Schema.Properties)
		for name := range m.Schema.Properties {
			assert.Contains(t, string(files["README.md"]), "| `"+name+"` |")
			assert.Contains(t, string(files["config.go"]), "`json:\""+name+"\"")
		}
		assert.Equal(t, len(m.Schema.Properties), strings.Count(string(files["config.go"]), "`json:"))
	}
}
