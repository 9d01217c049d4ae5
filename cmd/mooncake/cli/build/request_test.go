package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// repo is the checkout that the test is in.
const repo = "../../../.."

func TestParseWith(t *testing.T) {
	fifo, err := filepath.Abs(repo + "/examples/evict-fifo")
	require.NoError(t, err)
	for text, want := range map[string]source{
		"example.com/x":                      {pkg: "example.com/x", version: "latest"},
		"example.com/x@v1.2.0":               {pkg: "example.com/x", version: "v1.2.0"},
		"example.com/x/v2/pkg@main":          {pkg: "example.com/x/v2/pkg", version: "main"},
		"example.com/evict-fifo=" + fifo:     {pkg: "example.com/evict-fifo", version: "v0.0.0", dir: fifo, module: "example.com/evict-fifo"},
		"example.com/evict-fifo/sub=" + fifo: {pkg: "example.com/evict-fifo/sub", version: "v0.0.0", dir: fifo, module: "example.com/evict-fifo"},
	} {
		got, err := parseWith(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                              "no path of a Go module",
		"evict-fifo":                    "no path of a Go module",
		"../evict-fifo":                 "no path of a Go module",
		"example.com/x@":                "is no version",
		"example.com/x@-flag":           "is no version",
		"example.com/x@v1=" + fifo:      "names a version and a folder",
		"example.com/x=" + fifo:         "has the module example.com/evict-fifo, not example.com/x",
		"example.com/x=/nowhere/at/all": "there is no Go module in /nowhere/at/all",
	} {
		_, err := parseWith(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func FuzzParseWith(f *testing.F) {
	for _, seed := range []string{"example.com/x@v1.2.0", "example.com/x=../x", "a@b=c", "@=", "x.y/z@-u"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseWith(text)
		if err == nil && (strings.HasPrefix(s.pkg, "-") || strings.HasPrefix(s.version, "-") || s.version == "") {
			t.Fatalf("%q became %+v", text, s)
		}
	})
}

func TestParseCore(t *testing.T) {
	root, err := filepath.Abs(repo)
	require.NoError(t, err)
	for _, c := range []struct{ text, current, version, dir string }{
		{"v1.2.3", "dev", "v1.2.3", ""},
		{"latest", "dev", "latest", ""},
		{"", "v1.2.3", "v1.2.3", ""},
		{"", "v0.0.0-20260101000000-0123456789ab", "v0.0.0-20260101000000-0123456789ab", ""},
		{"", "dev", "v0.0.0", root},
		{repo, "v1.2.3", "v0.0.0", root},
		{"github.com/mooncake-go/mooncake=" + root, "dev", "v0.0.0", root},
	} {
		s, err := parseCore(c.text, c.current, "mooncake")
		require.NoError(t, err, c)
		assert.Equal(t, c.version, s.version, c)
		assert.Equal(t, c.dir, s.dir, c)
	}
	_, err = parseCore(repo+"/sdk", "dev", "mooncake")
	assert.ErrorContains(t, err, "not github.com/mooncake-go/mooncake")
	t.Chdir(t.TempDir())
	_, err = parseCore("", "dev", "mooncake")
	assert.ErrorContains(t, err, "give --core VERSION or --core PATH")
}

func TestRequests(t *testing.T) {
	_, err := newRequest(source{}, nil, nil)
	assert.ErrorContains(t, err, "nothing to link in")
	_, err = newRequest(source{}, []string{"example.com/x@v1.0.0", "example.com/x@v2"}, nil)
	assert.ErrorContains(t, err, "names example.com/x twice")
	_, err = newRequest(source{}, []string{"example.com/x"}, []string{"lru"})
	assert.ErrorContains(t, err, "--without")
	r, err := newRequest(source{}, []string{"example.com/x"}, []string{"evict/lru", "tier/file"})
	require.NoError(t, err)
	assert.Equal(t, "mooncake_no_evict_lru,mooncake_no_tier_file", r.tags())
}

// TestEveryBuiltinCanBeLeftOut: the tag of each built-in plugin is one that package builtin knows.
func TestEveryBuiltinCanBeLeftOut(t *testing.T) {
	e, _, _ := clitest.New()
	for _, f := range e.Builtins {
		tag := request{without: []plugin.ID{f.Manifest().ID}}.tags()
		text, err := os.ReadFile(filepath.Join(repo, "cmd/mooncake/builtin", strings.TrimPrefix(tag, "mooncake_no_")+"_none.go"))
		require.NoError(t, err)
		assert.Contains(t, string(text), "//go:build "+tag+"\n")
	}
}

func TestLocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	r, err := newRequest(source{pkg: "example.com/core", version: "v1.0.0"}, []string{"example.com/x@v1.0.0"}, []string{"evict/lru"})
	require.NoError(t, err)
	none, err := readLock(file)
	require.NoError(t, err)
	assert.Nil(t, none)
	l := &lock{Format: lockFormat, Go: "go1.26.0", Core: r.core.String(), GoMod: "module x\n", GoSum: "a b c\n"}
	l.With, l.Without = r.texts()
	require.NoError(t, l.write(file))
	back, err := readLock(file)
	require.NoError(t, err)
	assert.Equal(t, l, back)
	require.NoError(t, back.allows(r, file, "go1.26.0"))
	assert.ErrorContains(t, back.allows(r, file, "go1.26.1"), "set GOTOOLCHAIN=go1.26.0")
	for name, change := range map[string]func(*request){
		"the core":          func(r *request) { r.core.version = "v1.0.1" },
		"the plugins":       func(r *request) { r.with = append(r.with, source{pkg: "example.com/y"}) },
		"a program without": func(r *request) { r.without = nil },
	} {
		other := r
		change(&other)
		err := back.allows(other, file, "go1.26.0")
		require.ErrorContains(t, err, "was written for "+name)
		assert.ErrorContains(t, err, "--update")
	}
	for text, want := range map[string]string{
		"":                               "no regular",
		"[]":                             "is not a lock file",
		"mooncake_build_lock: 2\n":       "its format is 2",
		"mooncake_build_lock: 1\n":       "is not complete",
		"mooncake_build_lock: 1\nx: y\n": "is not a lock file",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := readLock(file)
		if text == "" {
			want = "is not a lock file"
		}
		require.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "--update")
	}
	_, err = readLock(t.TempDir())
	assert.ErrorContains(t, err, "not a regular file")
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte("mooncake_build_lock: 1\ngo: go1\ncore: c\ngo_mod: m\nwith: [a]\n"))
	f.Add([]byte("{mooncake_build_lock: 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLock(text)
		if (err == nil) != (l != nil) || err == nil && l.GoMod == "" {
			t.Fatalf("%q: %+v, %v", text, l, err)
		}
	})
}

// TestWhatThePackageMustHave checks packages that cannot be linked in, without compiling them.
func TestWhatThePackageMustHave(t *testing.T) {
	const good = "package x\n\nfunc Factory() int { return 0 }\n"
	const manifest = `{"mooncake_plugin_manifest":1,"kind":"evict","name":"lru","version":"1","api":[1],"summary":"s","stability":"stable"}`
	for name, c := range map[string]struct{ code, manifest, name, want string }{
		"none":     {"package x\n\nfunc factory() int { return 0 }\n", "", "x", "no func Factory()"},
		"argument": {"package x\n\nfunc Factory(a int) int { return 0 }\n", "", "x", "no func Factory()"},
		"method":   {"package x\n\ntype t int\n\nfunc (t) Factory() int { return 0 }\n", "", "x", "no func Factory()"},
		"program":  {good, "", "main", "is a program"},
		"broken":   {"package", "", "x", "expected 'IDENT'"},
		"built in": {good, manifest, "x", "evict/lru, which this program has too"},
		"fine":     {good, strings.Replace(manifest, "lru", "own", 1), "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte(c.code), 0o600))
			p := goPackage{ImportPath: "example.com/x", Name: c.name, Dir: dir, GoFiles: []string{"x.go"}}
			if c.manifest != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(c.manifest), 0o600))
				p.EmbedFiles = []string{"manifest.json"}
			}
			owners := map[plugin.ID]string{{Kind: "evict", Name: "lru"}: "this program"}
			err := p.check(owners)
			if c.want == "" {
				require.NoError(t, err)
				p.ImportPath = "example.com/y"
				assert.ErrorContains(t, p.check(owners), "evict/own, which example.com/x has too")
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestUseErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"give -o FILE":       {"--with", "example.com/x"},
		"nothing to link in": {"-o", "x", "--core", "v1.0.0"},
		"--timeout is 0s":    {"-o", "x", "--timeout", "0s"},
	} {
		e, _, _ := clitest.New()
		cmd := New(e)
		cmd.SetArgs(args)
		err := cmd.Execute()
		require.ErrorContains(t, err, want)
		assert.Equal(t, command.ExitUsage, command.ExitCode(err))
	}
	t.Setenv("PATH", t.TempDir())
	e, _, _ := clitest.New()
	cmd := New(e)
	cmd.SetArgs([]string{"-o", filepath.Join(t.TempDir(), "x"), "--core", "v1.0.0", "--with", "example.com/x"})
	err := cmd.Execute()
	assert.ErrorContains(t, err, "there is no go command in PATH")
}
