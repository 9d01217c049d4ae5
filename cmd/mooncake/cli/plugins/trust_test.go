package plugins_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// workbench is a place with a plugin folder, a lock file, and a user without one of their own.
type workbench struct {
	t         *testing.T
	dir, lock string
	home      string
	environ   []string // in addition
}

func newWorkbench(t *testing.T) workbench {
	t.Helper()
	w := workbench{t: t, dir: private(t), home: private(t)}
	w.lock = filepath.Join(private(t), "plugins.lock.yaml")
	t.Setenv("XDG_DATA_HOME", w.home)
	return w
}

func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // as folders of plugins are
	return dir
}

// write makes a program with a manifest; it is never run.
func (w workbench) write(path, id, version, head string) string {
	w.t.Helper()
	parsed, err := plugin.ParseID(id)
	require.NoError(w.t, err)
	text, err := json.Marshal(plugin.Manifest{
		Format: 1, ID: parsed, Version: version, API: []uint{1}, Summary: "for tests", Stability: plugin.Beta,
		ConfigSchema: json.RawMessage(`{"type":"object","properties":{"size":{"type":"integer","minimum":1,"maximum":9,"default":3,"description":"how many"},` +
			`"deep":{"type":"object","properties":{"mode":{"enum":["a","b"],"default":"a"}}}}}`),
	})
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(path, append([]byte(head), text...), 0o755)) //nolint:gosec // a program
	return path
}

func (w workbench) plugin(id, version string) string {
	parsed, _ := plugin.ParseID(id)
	return w.write(filepath.Join(w.dir, parsed.BinaryName()), id, version, "#!/bin/false\x00")
}

// run runs a verb of plugins.
func (w workbench) run(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	e, out, errOut := clitest.New()
	e.Environ = []string{"XDG_DATA_HOME=" + w.home, "TMPDIR=" + w.home, "XDG_RUNTIME_DIR=" + w.home, "MOONCAKE_PLUGINS_DIRS=" + w.dir, "MOONCAKE_PLUGINS_LOCK=" + w.lock}
	e.Environ = append(e.Environ, w.environ...)
	code = cli.Run(e, append([]string{"mooncake", "plugins"}, args...))
	return code, out.String(), errOut.String()
}

func (w workbench) json(into any, args ...string) (code int) {
	w.t.Helper()
	code, out, errOut := w.run(append(args, "-o", "json")...)
	require.NoError(w.t, json.Unmarshal([]byte(out), into), "%s%s", out, errOut)
	return code
}

func TestLockAndVerify(t *testing.T) {
	w := newWorkbench(t)
	fifo := w.plugin("evict/fifo", "1.0.0")
	code, _, errOut := w.run("verify")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "mooncake plugins lock makes it")

	var locked []plugins.LockedPlugin
	require.Equal(t, command.ExitOK, w.json(&locked, "lock"))
	p, err := find.ReadProgram(fifo)
	require.NoError(t, err)
	assert.Equal(t, []plugins.LockedPlugin{{ID: "evict/fifo", Platform: "any", Version: "1.0.0", SHA256: p.SHA256, File: fifo, Change: "added"}}, locked)
	code, out, _ := w.run("verify")
	assert.Equal(t, command.ExitOK, code)
	assert.Regexp(t, `evict/fifo +ok +1\.0\.0`, out)

	w.plugin("evict/fifo", "1.1.0")
	open := w.plugin("evict/open", "1.0.0")
	require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // what is refused
	w.plugin("alloc/more", "1.0.0")
	var checks []plugins.Verified
	require.Equal(t, command.ExitFailure, w.json(&checks, "verify"))
	status := map[string]string{}
	for _, c := range checks {
		status[c.ID] = c.Status
	}
	assert.Equal(t, map[string]string{"evict/fifo": "mismatch", "evict/open": "refused", "alloc/more": "unlocked"}, status)
	code, _, errOut = w.run("verify", "evict/fifo", "evict/none")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "2 of 2 plugins are not what is locked")

	code, out, errOut = w.run("lock")
	assert.Equal(t, command.ExitOK, code)
	assert.Regexp(t, `evict/fifo +any +1\.1\.0 +\w{12} +updated from 1\.0\.0`, out)
	assert.Contains(t, errOut, "left out: "+open+": ")
	code, out, _ = w.run("lock", "evict/fifo")
	assert.Equal(t, command.ExitOK, code)
	assert.Contains(t, out, "unchanged")
	code, _, errOut = w.run("lock", "evict/open")
	assert.Equal(t, command.ExitFailure, code)
	assert.Contains(t, errOut, "chmod go-w")

	require.NoError(t, os.Remove(open))
	require.NoError(t, os.Remove(fifo))
	checks = nil
	require.Equal(t, command.ExitOK, w.json(&checks, "verify"), "what is locked need not be installed")
	assert.Contains(t, checks, plugins.Verified{ID: "evict/fifo", Status: "absent", Locked: &plugins.LockedItem{"1.1.0", checks[1].Locked.SHA256}})
	code, _, _ = w.run("verify", "evict/fifo")
	assert.Equal(t, command.ExitFailure, code, "unless it is named")
}

// TestAFolderThatCannotBeReadIsNoSuccess: what it holds is not known.
func TestAFolderThatCannotBeReadIsNoSuccess(t *testing.T) {
	w := newWorkbench(t)
	w.plugin("evict/fifo", "1.0.0")
	file := filepath.Join(w.home, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	code, _, errOut := w.run("lock", "--plugin-dir", file)
	require.Equal(t, command.ExitOK, code)
	assert.Contains(t, errOut, "left out: "+file+": the plugin folder is not a folder")
	code, _, _ = w.run("verify")
	require.Equal(t, command.ExitOK, code)
	for _, args := range [][]string{{"verify", "--plugin-dir", file}, {"verify", "evict/fifo", "--plugin-dir", file}} {
		code, out, errOut := w.run(args...)
		assert.Equal(t, command.ExitFailure, code)
		assert.Regexp(t, `(?m)^- +refused .*the plugin folder is not a folder`, out)
		assert.Contains(t, errOut, "1 of 2 plugins")
	}
}

// TestLockOfAnotherPlatform: its file is named with the platform, and what is locked here
// stays.
func TestLockOfAnotherPlatform(t *testing.T) {
	w := newWorkbench(t)
	heads := map[string]string{"linux/amd64": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\x3e\x00", "linux/arm64": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xb7\x00"}
	far := "linux/arm64"
	if runtime.GOARCH == "arm64" {
		far = "linux/amd64"
	}
	if heads[trust.HostPlatform()] == "" {
		t.Skip("written for amd64 and arm64")
	}
	w.write(filepath.Join(w.dir, "mooncake-plugin-evict-fifo"), "evict/fifo", "1.0.0", heads[trust.HostPlatform()])
	other := w.write(filepath.Join(private(t), "mooncake-plugin-evict-fifo"), "evict/fifo", "1.0.1", heads[far])
	code, _, errOut := w.run("lock", other)
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, errOut, "give --platform "+far)
	code, _, errOut = w.run("lock", "--platform", "linux/s390x", other)
	assert.Equal(t, command.ExitUsage, code)
	assert.Contains(t, errOut, "not for linux/s390x")
	for _, args := range [][]string{{"lock", "evict/fifo"}, {"lock", "--platform", far, other}, {"lock"}} {
		code, _, errOut = w.run(args...)
		require.Equal(t, command.ExitOK, code, errOut)
	}
	l, err := trust.ReadLock(w.lock)
	require.NoError(t, err)
	platforms, entries := l.Platforms(plugin.ID{Kind: "evict", Name: "fifo"})
	assert.Equal(t, []string{"linux/amd64", "linux/arm64"}, platforms)
	assert.Equal(t, "1.0.0", entries[trust.HostPlatform()].Version)
	assert.Equal(t, "1.0.1", entries[far].Version)
	for _, args := range [][]string{{"lock", "--platform", far}, {"lock", "--platform", far, "evict/fifo"}} {
		code, _, errOut = w.run(args...)
		assert.Equal(t, command.ExitUsage, code)
		assert.Contains(t, errOut, "--platform is about files")
	}
	var in plugins.Inspection
	require.Equal(t, command.ExitOK, w.json(&in, "inspect", other))
	assert.Equal(t, trust.IsLocked, in.Trust, "as it is for its platform")
}

// TestRollback: the earlier version is installed and locked, and a second rollback undoes the first.
func TestRollback(t *testing.T) {
	w := newWorkbench(t)
	file := filepath.Join(private(t), "fifo")
	for _, version := range []string{"1.0.0", "2.0.0"} {
		w.write(file, "evict/fifo", version, "#!/bin/false\x00")
		code, _, errOut := w.run("install", file, "--lock")
		require.Equal(t, command.ExitOK, code, errOut)
	}
	for _, c := range []struct {
		args         []string
		now, instead string
	}{
		{[]string{"rollback", "evict/fifo"}, "1.0.0", "2.0.0"},
		{[]string{"rollback", "evict/fifo", "2.0.0"}, "2.0.0", "1.0.0"},
	} {
		var done plugins.Installation
		require.Equal(t, command.ExitOK, w.json(&done, c.args...))
		assert.Equal(t, c.now, done.Version)
		assert.Equal(t, c.instead, done.Before.Version)
		assert.Equal(t, trust.IsLocked, done.Trust)
		var list []plugins.ListedPlugin
		require.Equal(t, command.ExitOK, w.json(&list, "list", "--no-live", "--kind", "evict"))
		for _, p := range list {
			if p.Name == "fifo" {
				assert.Equal(t, c.now, p.Version)
				require.Len(t, p.Kept, 1)
				assert.Equal(t, c.instead, p.Kept[0].Version)
			}
		}
	}
	code, out, _ := w.run("list", "--no-live", "-o", "wide")
	assert.Equal(t, command.ExitOK, code)
	assert.Contains(t, out, "evict/fifo: version 1.0.0, sha256 ")
	for want, args := range map[string][]string{
		"kept are 1.0.0":            {"rollback", "evict/fifo", "3.0.0"},
		"it has no file":            {"rollback", "evict/lru"},
		"no mooncake-plugin-evict-": {"rollback", "evict/none"},
		"no earlier version of it":  {"rollback", "evict/fifo", "--dir", private(t)},
		"must have the form":        {"rollback", "fifo"},
	} {
		code, _, errOut := w.run(args...)
		assert.NotEqual(t, command.ExitOK, code)
		assert.Contains(t, errOut, want)
	}
}

func TestInstallAndRemove(t *testing.T) {
	w := newWorkbench(t)
	file := w.write(filepath.Join(private(t), "fifo-1.0.0"), "evict/fifo", "1.0.0", "#!/bin/false\x00")
	target := filepath.Join(w.home, "mooncake", "plugins", "mooncake-plugin-evict-fifo")
	var done plugins.Installation
	require.Equal(t, command.ExitOK, w.json(&done, "install", file))
	assert.Equal(t, target, done.File)
	assert.Equal(t, trust.Unlocked, done.Trust)
	assert.Contains(t, strings.Join(done.Notes, "\n"), "run: mooncake plugins lock evict/fifo")

	done = plugins.Installation{}
	file = w.write(file, "evict/fifo", "2.0.0", "#!/bin/false\x00")
	require.Equal(t, command.ExitOK, w.json(&done, "install", file, "--lock"))
	require.NotNil(t, done.Before)
	assert.Equal(t, "1.0.0", done.Before.Version)
	assert.Equal(t, trust.IsLocked, done.Trust)
	assert.Empty(t, done.Notes)
	code, out, _ := w.run("verify")
	assert.Equal(t, command.ExitOK, code, out)
	elsewhere := private(t)
	code, out, _ = w.run("install", file, "--dir", elsewhere)
	assert.Equal(t, command.ExitOK, code)
	assert.Contains(t, out, "note: "+elsewhere+" is not searched")

	w.plugin("evict/fifo", "3.0.0") // comes first
	var gone plugins.Removal
	require.Equal(t, command.ExitOK, w.json(&gone, "remove", "evict/fifo"))
	assert.Equal(t, filepath.Join(w.dir, "mooncake-plugin-evict-fifo"), gone.File)
	assert.Equal(t, []string{target}, gone.Left)
	assert.False(t, gone.Unlocked, "the one that is left needs it")
	code, out, _ = w.run("remove", "evict/fifo")
	assert.Equal(t, command.ExitOK, code)
	assert.Contains(t, out, "removed evict/fifo from "+w.lock)
	assert.NoFileExists(t, target)
	l, err := trust.ReadLock(w.lock)
	require.NoError(t, err)
	assert.Empty(t, l.IDs())

	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"remove", "evict/fifo"}, command.ExitFailure, "there is no mooncake-plugin-evict-fifo"},
		{[]string{"remove", "evict/lru"}, command.ExitUsage, "linked into this program"},
		{[]string{"remove"}, command.ExitUsage, "takes one ID"},
		{[]string{"remove", "fifo"}, command.ExitUsage, "kind/name"},
		{[]string{"install", w.lock}, command.ExitUsage, "neither an ELF program nor a script"},
		{[]string{"install", filepath.Join(w.dir, "none")}, command.ExitFailure, "no such file"},
		{[]string{"install", file, "-o", "xml"}, command.ExitUsage, "xml"},
		{[]string{"lock", "fifo"}, command.ExitUsage, "./fifo"},
		{[]string{"lock", "evict/lru"}, command.ExitUsage, "linked into this program"},
		{[]string{"verify", "x"}, command.ExitUsage, "kind/name"},
		{[]string{"inspect", "evict/none"}, command.ExitFailure, "there is no mooncake-plugin-evict-none"},
		{[]string{"inspect", w.lock}, command.ExitUsage, "neither an ELF program nor a script"},
	} {
		code, _, errOut := w.run(c.args...)
		assert.Equal(t, c.code, code, "%v: %s", c.args, errOut)
		assert.Contains(t, errOut, c.want)
	}
	w.lock = ""
	for _, args := range [][]string{{"lock"}, {"verify"}, {"install", file, "--lock"}} {
		code, _, errOut := w.run(args...)
		assert.Equal(t, command.ExitUsage, code)
		assert.Contains(t, errOut, "give --plugin-lock FILE")
	}
}

func TestInspect(t *testing.T) {
	w := newWorkbench(t)
	fifo := w.plugin("evict/fifo", "1.0.0")
	w.plugin("evict/lru", "9.9.9")
	code, _, _ := w.run("lock", "evict/fifo")
	require.Equal(t, command.ExitOK, code)
	code, out, _ := w.run("inspect", "evict/fifo")
	assert.Equal(t, command.ExitOK, code)
	for _, want := range []string{
		`version +1\.0\.0`, `stability +beta`, `contract +1; this program speaks 1`, `home +` + fifo, `state +available`, `platform +any`,
		`sha256 +[0-9a-f]{64}`, `trust +locked`, `lock file +` + w.lock, `locked +any 1\.0\.0 [0-9a-f]{64}`, `plugins\.evict\.fifo\.config`,
		`size +integer +3 +from 1 to 9 +how many`, `deep\.mode +- +a +a, b`,
	} {
		assert.Regexp(t, want, out)
	}
	var in plugins.Inspection
	require.Equal(t, command.ExitOK, w.json(&in, "inspect", "evict/lru"))
	assert.Equal(t, pluginhost.HomeBuiltin, in.Home)
	assert.Equal(t, trust.BuiltIn, in.Trust)
	require.Len(t, in.Others, 1)
	assert.Equal(t, "9.9.9", in.Others[0].Version)
	assert.Contains(t, in.Others[0].Reason, "does not have it")
	in = plugins.Inspection{}
	require.Equal(t, command.ExitOK, w.json(&in, "inspect", filepath.Join(w.dir, "mooncake-plugin-evict-lru")))
	assert.Equal(t, trust.Unlocked, in.Trust)
	assert.Equal(t, "failed", in.State)
	assert.True(t, in.Others[0].First, "the one that is linked in comes first")

	code, out, _ = w.run("inspect", "evict/fifo", "-o", "yaml")
	assert.Equal(t, command.ExitOK, code)
	var raw map[string]any
	require.NoError(t, yaml.NewDecoder(bytes.NewReader([]byte(out))).Decode(&raw))
	assert.Equal(t, "evict/fifo", raw["id"])
}

// TestASchemaIsTheAuthors: whatever it holds, it is shown or left out.
func TestASchemaIsTheAuthors(t *testing.T) {
	var out bytes.Buffer
	plugins.WriteSettings(&out, "evict/x", map[string]any{"properties": map[string]any{
		"a": 5, "b": nil, "c": map[string]any{"type": []any{"string", "null"}, "default": nil, "enum": "no", "description": 7},
		"d\x1b[31m": map[string]any{"minimum": 0.5, "default": 1e300},
		"e":         map[string]any{"formatMinimum": "1s", "formatMaximum": "1h"}, "f": map[string]any{"minLength": 1.0, "maxLength": 9.0}, "g": map[string]any{"maxItems": 8.0},
	}})
	assert.NotContains(t, out.String(), "\x1b")
	for _, want := range []string{"from 0.5", "from 1s to 1h", "at least 1 characters at most 9 characters", "at most 8 items"} {
		assert.Contains(t, out.String(), want)
	}
	out.Reset()
	plugins.WriteSettings(&out, "evict/x", "nonsense")
	assert.Contains(t, out.String(), "no settings")
}
