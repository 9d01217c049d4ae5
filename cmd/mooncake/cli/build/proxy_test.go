package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/checkout"
)

// release is the version under which the proxy of a test has the sources of this checkout.
const release = "v0.9.0"

// TestFromAProxy builds as a user without a checkout does: all modules come from a module proxy. The whole
// program is compiled, twice, with MOONCAKE_TEST_BUILD only, since that takes minutes.
func TestFromAProxy(t *testing.T) {
	environ := proxied(t)
	out := filepath.Join(t.TempDir(), "mooncake")
	b := newTestBuilder(t, out, environ, "example.com/transport-uds@"+release, "example.com/evict-fifo")
	dir := t.TempDir()
	g, err := findGo(dir, environ)
	require.NoError(t, err)
	version, err := g.env(t.Context(), "GOVERSION")
	require.NoError(t, err)
	l, err := b.prepare(t.Context(), g, version[0])
	require.NoError(t, err)
	require.NoError(t, b.inspect(t.Context(), g, b.builtin))
	mod, err := modfile.Parse("go.mod", []byte(l.GoMod), nil)
	require.NoError(t, err)
	assert.Empty(t, mod.Replace)
	chosen := map[string]string{}
	for _, r := range mod.Require {
		chosen[r.Mod.Path] = r.Mod.Version
	}
	for _, path := range []string{checkout.Core, "example.com/transport-uds", "example.com/evict-fifo"} {
		assert.Equal(t, release, chosen[path], path)
		assert.Contains(t, l.GoSum, path+" "+release+" h1:")
	}

	_, err = newTestBuilder(t, out, environ, "example.com/nothing-here").prepare(t.Context(), g, version[0])
	require.ErrorContains(t, err, "example.com/nothing-here")
	assert.ErrorContains(t, err, "check the path and the version of --with and GOPROXY")

	if os.Getenv("MOONCAKE_TEST_BUILD") == "" {
		t.Log("not compiled; make test-build does it")
		return
	}
	first := built(t, b)
	locked, err := os.ReadFile(out + ".lock")
	require.NoError(t, err)
	second := built(t, newTestBuilder(t, out, environ, "example.com/transport-uds@"+release, "example.com/evict-fifo"))
	assert.Equal(t, first, second, "the bytes differ")
	again, err := os.ReadFile(out + ".lock")
	require.NoError(t, err)
	assert.Equal(t, string(locked), string(again))
	demo := exec.CommandContext(t.Context(), out, "demo", "--protocol", "uds", "--evictor", "fifo", "--requests", "60")
	text, err := demo.CombinedOutput()
	require.NoError(t, err, "%s", text)
	assert.Contains(t, string(text), "transport/uds         linked into 3 stores and 2 workers")
}

func newTestBuilder(t *testing.T, out string, environ []string, with ...string) *builder {
	t.Helper()
	core, err := parseCore(release, "", "")
	require.NoError(t, err)
	r, err := newRequest(core, with, nil)
	require.NoError(t, err)
	return &builder{request: r, out: out, lockFile: out + ".lock", environ: environ, log: io.Discard, version: "dev"}
}

func built(t *testing.T, b *builder) [sha256.Size]byte {
	t.Helper()
	res, err := b.build(t.Context())
	require.NoError(t, err)
	assert.Contains(t, res.Plugins, "transport/uds")
	assert.Contains(t, res.Plugins, "evict/fifo")
	text, err := os.ReadFile(b.out)
	require.NoError(t, err)
	return sha256.Sum256(text)
}

// proxied returns an environment in which the go command finds this project and two examples as released modules, and
// all others where this test has them from. The downloads go to a folder of the test.
func proxied(t *testing.T) []string {
	t.Helper()
	proxy := t.TempDir()
	for path, dir := range map[string]string{
		checkout.Core: ".", checkout.SDK: "sdk",
		"example.com/transport-uds": "examples/transport-uds", "example.com/evict-fifo": "examples/evict-fifo",
	} {
		publish(t, proxy, module.Version{Path: path, Version: release}, filepath.Join(repo, dir))
	}
	had, err := gotool{path: "go", dir: ".", environ: os.Environ()}.env(t.Context(), "GOMODCACHE", "GOPROXY")
	require.NoError(t, err)
	cache := filepath.Join(t.TempDir(), "mod")
	environ := append(os.Environ(), "GOSUMDB=off", "GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(had[0], "cache/download")+","+had[1])
	t.Cleanup(func() { // The go command makes it read-only.
		_, err := gotool{path: "go", dir: ".", environ: environ}.run(context.WithoutCancel(t.Context()), nil, "clean", "-modcache")
		assert.NoError(t, err)
	})
	return environ
}

// publish adds a module to the folder of a proxy: the files that git has, with a go.mod that requires the released sdk.
func publish(t *testing.T, proxy string, m module.Version, dir string) {
	t.Helper()
	mod, err := checkout.Module(dir)
	require.NoError(t, err)
	for _, r := range mod.Require {
		if r.Mod.Path == checkout.SDK {
			require.NoError(t, mod.AddRequire(checkout.SDK, release))
			require.NoError(t, mod.DropReplace(checkout.SDK, ""))
		}
	}
	text, err := mod.Format()
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", ".")
	list.Dir = dir
	names, err := list.Output()
	require.NoError(t, err)
	tree := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil { // a link to a folder, or a file that is deleted
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(tree, name), content, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(tree, "go.mod"), text, 0o600))
	var archive bytes.Buffer
	require.NoError(t, zip.CreateFromDir(&archive, m, tree))
	escaped, err := module.EscapePath(m.Path)
	require.NoError(t, err)
	at := filepath.Join(proxy, escaped, "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	for name, content := range map[string][]byte{
		m.Version + ".zip": archive.Bytes(), m.Version + ".mod": text, "list": []byte(m.Version + "\n"),
		m.Version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, m.Version),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o600))
	}
}
