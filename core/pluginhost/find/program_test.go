package find

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

func evictID(name string) plugin.ID { return plugin.ID{Kind: plugin.KindEvict, Name: name} }

// elf is the beginning of a program for a machine.
func elf(class, data, abi byte, machine ...byte) []byte {
	head := append([]byte("\x7fELF"), class, data, 1, abi)
	return append(append(head, make([]byte, 10)...), machine...)
}

// TestOtherMachinesPrograms: programs for other platforms are listed with the reason, and not run.
func TestOtherMachinesPrograms(t *testing.T) {
	machine, name := []byte{0xb7, 0}, "linux/arm64"
	if runtime.GOARCH == "arm64" {
		machine, name = []byte{0x3e, 0}, "linux/amd64"
	}
	dir := testplugin.Folder(t)
	m := testplugin.Manifest(evictID("far"), 1)
	content := append(elf(2, 1, 0, machine...), bytes.TrimPrefix(testplugin.Script(t, m), []byte("#!/bin/false\x00"))...)
	path := testplugin.Put(t, dir, "mooncake-plugin-evict-far", content)
	e := finder(t, Options{Dirs: []string{dir}}).Find(plugin.ID{})[0]
	assert.Equal(t, plugin.StateFailed, e.State)
	assert.Contains(t, e.Reason, "it is a program for "+name+", and this is "+trust.HostPlatform())
	assert.Equal(t, "1.0.0", e.Version)
	_, err := Install(t.Context(), path, testplugin.Folder(t), kinds.API)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	p, err := ReadProgram(path)
	require.NoError(t, err, "it can be locked for that machine")
	assert.Equal(t, name, p.Platform)
}

func TestInstall(t *testing.T) {
	from, to := testplugin.Folder(t), filepath.Join(testplugin.Folder(t), "new", "plugins")
	first := testplugin.Put(t, from, "fifo-1.0.0", testplugin.Script(t, testplugin.Manifest(evictID("fifo"), 1)))
	require.NoError(t, os.Chmod(first, 0o600))
	done, err := Install(t.Context(), first, to, kinds.API)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(to, "mooncake-plugin-evict-fifo"), done.Path)
	assert.Nil(t, done.Before)
	e := finder(t, Options{Dirs: []string{to}}).Find(plugin.ID{})[0]
	assert.Equal(t, plugin.StateAvailable, e.State, e.Reason)
	assert.Equal(t, done.SHA256, e.SHA256)
	info, err := os.Stat(done.Path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm())

	held, err := os.Open(done.Path)
	require.NoError(t, err)
	defer held.Close()
	m := testplugin.Manifest(evictID("fifo"), 1)
	m.Version = "2.0.0"
	again, err := Install(t.Context(), testplugin.Put(t, from, "fifo-2", testplugin.Script(t, m)), to, kinds.API)
	require.NoError(t, err)
	require.NotNil(t, again.Before)
	assert.Equal(t, "1.0.0", again.Before.Manifest.Version)
	sum, err := Checksum(held)
	require.NoError(t, err)
	assert.Equal(t, done.SHA256, sum, "a process that has the old file open keeps it")

	names, err := os.ReadDir(to)
	require.NoError(t, err)
	assert.Len(t, names, 2, "the plugin and the folder of earlier versions")
	require.NoError(t, Uninstall(done.Path))
	assert.ErrorIs(t, Uninstall(done.Path), errs.FileNotFound.Err())
	assert.ErrorIs(t, Uninstall(first), errs.InvalidParams.Err())
	assert.FileExists(t, first)
}

func TestInstallRefuses(t *testing.T) {
	from := testplugin.Folder(t)
	good := testplugin.Put(t, from, "good", testplugin.Script(t, testplugin.Manifest(evictID("fifo"), 1)))
	open := testplugin.Folder(t)
	require.NoError(t, os.Chmod(open, 0o777|os.ModeSticky))
	blocked := testplugin.Folder(t)
	require.NoError(t, os.Mkdir(filepath.Join(blocked, "mooncake-plugin-evict-fifo"), 0o755))
	for name, c := range map[string]struct {
		file, dir, want string
	}{
		"no manifest":         {testplugin.Put(t, from, "none", []byte("#!/bin/sh\n")), from, "no Mooncake plugin manifest"},
		"no program":          {testplugin.Put(t, from, "text", []byte("hello")), from, "neither an ELF"},
		"another name":        {testplugin.Put(t, from, "mooncake-plugin-evict-lru", testplugin.Script(t, testplugin.Manifest(evictID("fifo"), 1))), from, "manifest says evict/fifo"},
		"another contract":    {testplugin.Put(t, from, "future", testplugin.Script(t, testplugin.Manifest(evictID("fifo"), 77))), from, "77"},
		"a folder":            {from, from, "not a regular file"},
		"nothing":             {filepath.Join(from, "missing"), from, "no such file"},
		"an open folder":      {good, open, "chmod go-w"},
		"in a folder's place": {good, blocked, "it is a folder"},
		"below a file":        {good, filepath.Join(good, "x"), "not a directory"},
	} {
		_, err := Install(t.Context(), c.file, c.dir, kinds.API)
		assert.ErrorContains(t, err, c.want, name)
	}
	names, err := os.ReadDir(open)
	require.NoError(t, err)
	assert.Empty(t, names)
}
