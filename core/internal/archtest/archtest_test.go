package archtest

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
	CgoFiles   []string
}

// root is the repository's root, from this package's folder.
const root = "../../.."

func list(t *testing.T, dir string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,CgoFiles", "./...")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list in %s", dir)
	var pkgs []listed
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	require.NotEmpty(t, pkgs)
	return pkgs
}

func TestImportRules(t *testing.T) {
	pkgs := slices.Concat(list(t, root), list(t, filepath.Join(root, "sdk")), list(t, filepath.Join(root, "bench")))
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, v := range violations(r, pkgs) {
				t.Errorf("%s\n  %s", v, r.why)
			}
		})
	}
}

// TestFxStaysInModules: only the composition uses fx. Another package may use it in one file named
// module.go.
func TestFxStaysInModules(t *testing.T) {
	for _, p := range list(t, root) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if under(rel, "core/app") {
			continue
		}
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, imp := range file.Imports {
				if strings.HasPrefix(imp.Path.Value, `"go.uber.org/fx`) && f != "module.go" {
					t.Errorf("%s/%s imports fx; only core/app and files named module.go may", rel, f)
				}
			}
		}
	}
}

func violations(r rule, pkgs []listed) []string {
	var out []string
	for _, p := range pkgs {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if !r.applies(rel) {
			continue
		}
		imports := p.Imports
		if len(p.CgoFiles) > 0 {
			imports = append(imports, "C")
		}
		for _, imp := range imports {
			if !r.allow(rel, imp) {
				out = append(out, rel+" imports "+imp)
			}
		}
	}
	return out
}

// TestRulesCanFail feeds each rule an import that it must refuse, and one it must not.
func TestRulesCanFail(t *testing.T) {
	cases := []struct{ rule, pkg, bad, good string }{
		{"contracts use the standard library only", "sdk/evict", "golang.org/x/sys/unix", "context"},
		{"contracts use the standard library only", "sdk/transport/pathkit", sdk + "x/shm", sdk + "transport"},
		{"contracts use the standard library only", "sdk/transport/regionkit", sdk + "transport/pathkit", sdk + "transport"},
		{"sdk does not know the core", "sdk/serve", module + "core/model", sdk + "plugin"},
		{"sdk stays light", "sdk/wire", "go.uber.org/fx", "google.golang.org/grpc"},
		{"plugins use the sdk, nothing of the core, and not each other", "plugins/evict-lru", module + "plugins/alloc-arena", sdk + "evict"},
		{"only the built-in list links plugins", "core/app", module + "plugins/evict-lru", "context"},
		{"packages of the core import downwards", "core/store", module + "core/master", module + "core/model"},
		{"packages of the core import downwards", "core/config", module + "core/app", module + "core/internal/x"},
		{"koanf only in core/config", "core/app", "github.com/knadh/koanf/v2", "fmt"},
		{"go-plugin only in sdk/wire, sdk/serve and core/pluginhost/launch", "core/pluginhost", "github.com/hashicorp/go-plugin", "fmt"},
		{"cgo only in the verbs binding and at the edge of the C library", "core/bindings/store", "C", "unsafe"},
	}
	tested := map[string]bool{}
	for _, c := range cases {
		tested[c.rule] = true
		for _, r := range rules() {
			if r.name != c.rule {
				continue
			}
			got := violations(r, []listed{{ImportPath: module + c.pkg, Imports: []string{c.bad, c.good}}})
			require.Equal(t, []string{c.pkg + " imports " + c.bad}, got, c.rule)
		}
	}
	for _, r := range rules() {
		require.True(t, tested[r.name], "rule %q has no case here", r.name)
	}
}
