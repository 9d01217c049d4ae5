package find

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// TestTheFirstFolderWins: also if its program was refused, and then no copy is used.
func TestTheFirstFolderWins(t *testing.T) {
	first, second, third := testplugin.Folder(t), testplugin.Folder(t), testplugin.Folder(t)
	for _, name := range []string{"a", "b"} {
		for _, dir := range []string{first, second, third} {
			testplugin.Put(t, dir, evictID(name).BinaryName(), testplugin.Script(t, testplugin.Manifest(evictID(name), 1)))
		}
	}
	require.NoError(t, os.Chmod(filepath.Join(first, evictID("b").BinaryName()), 0o644))
	f := finder(t, Options{Dirs: []string{filepath.Join(first, "missing"), first, second, third}})
	for name, want := range map[string][]string{"a": {first}, "b": nil} {
		var usable []string
		found := f.Find(evictID(name))
		require.Len(t, found, 3, "all are listed, of this plugin only")
		for _, e := range found {
			if e.Usable() {
				usable = append(usable, filepath.Dir(e.Home))
			} else {
				assert.NotEmpty(t, e.Reason)
			}
			if name == "b" && filepath.Dir(e.Home) != first {
				assert.Equal(t, "not used: "+filepath.Join(first, evictID("b").BinaryName())+" comes first, and was refused; correct or remove that file", e.Reason)
			}
		}
		assert.Equal(t, want, usable, name)
	}
	assert.Len(t, f.Find(plugin.ID{}), 6)
}

// TestTheListIsInOrder: the order does not depend on the file system. The list says what is wrong
// with each file, even if another file takes precedence.
func TestTheListIsInOrder(t *testing.T) {
	first, second := testplugin.Folder(t), testplugin.Folder(t)
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("p%02d", (i*7+3)%20)
		testplugin.Put(t, first, evictID(name).BinaryName(), testplugin.Script(t, testplugin.Manifest(evictID(name), 1)))
		want = append(want, fmt.Sprintf("p%02d", i))
	}
	testplugin.Put(t, second, evictID("p00").BinaryName(), []byte("nothing"))
	found := finder(t, Options{Dirs: []string{first, second}, Rules: trust.Rules{Mode: trust.ModeOff}}).Find(plugin.ID{})
	require.Len(t, found, 21)
	var got []string
	for _, e := range found[:20] {
		got = append(got, e.Name)
	}
	assert.Equal(t, want, got)
	assert.Contains(t, found[20].Reason, "manifest")
}

// TestAFolderHoldsSoMany: a folder is searched for a bounded number of plugins, and the list says
// that there are more.
func TestAFolderHoldsSoMany(t *testing.T) {
	dir := testplugin.Folder(t)
	for i := range maxPerDir {
		testplugin.Put(t, dir, fmt.Sprintf("%sevict-p%d", plugin.BinaryPrefix, i), nil)
	}
	names, err := pluginFiles(dir)
	require.NoError(t, err)
	require.Len(t, names, maxPerDir)
	testplugin.Put(t, dir, plugin.BinaryPrefix+"evict-zzz", nil)
	names, err = pluginFiles(dir)
	assert.ErrorContains(t, err, "holds 257 plugins, only the first 256")
	assert.Len(t, names, maxPerDir)
}

// TestTheManifestIsThatOfTheCopy: manifest and checksum are read from the copy, so that a change of
// the file during the check has no effect.
func TestTheManifestIsThatOfTheCopy(t *testing.T) {
	g := guard(t, trust.ModeOff)
	m := testplugin.Manifest(guardID, 1)
	m.Version = "9.9.9"
	e, im := examine(g.path, g.judge(), func(f *os.File) (*launch.Image, error) {
		im, err := launch.NewImage(f)
		require.NoError(t, os.WriteFile(g.path, testplugin.Script(t, m), 0o755))
		return im, err
	})
	require.NotNil(t, im)
	defer im.Close()
	assert.Equal(t, "1.0.0", e.Version)
	assert.Equal(t, im.SHA256, e.SHA256)
	assert.Equal(t, "9.9.9", g.Find(plugin.ID{})[0].Version)

	// The platform is read from the copy too.
	e, im = examine(g.path, g.judge(), func(f *os.File) (*launch.Image, error) {
		im, err := launch.NewImage(f)
		require.NoError(t, os.WriteFile(g.path, append([]byte("\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 11)+"\xf3\x00"), testplugin.Script(t, m)...), 0o755))
		return im, err
	})
	require.NotNil(t, im)
	defer im.Close()
	assert.True(t, e.Usable(), e.Reason)
	assert.Contains(t, g.Find(plugin.ID{})[0].Reason, "a program for linux/riscv64")
}

func TestChecksumIsBounded(t *testing.T) {
	sum, err := checksum(strings.NewReader("abc"), 3)
	require.NoError(t, err)
	assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sum)
	_, err = checksum(strings.NewReader("abcd"), 3)
	assert.ErrorContains(t, err, "is larger than")
}

// TestAFileNamedAfterAnother: a file that is named after another plugin is refused, whatever its
// manifest says.
func TestAFileNamedAfterAnother(t *testing.T) {
	dir := testplugin.Folder(t)
	testplugin.Put(t, dir, evictID("liar").BinaryName(), testplugin.Script(t, testplugin.Manifest(evictID("other"), 1)))
	testplugin.Put(t, dir, plugin.BinaryPrefix+"nonsense", nil)
	found := finder(t, Options{Dirs: []string{dir}}).Find(plugin.ID{})
	require.Len(t, found, 2)
	for i, want := range []string{"named after evict/liar, but its manifest says evict/other", "not named mooncake-plugin-<kind>-<name>"} {
		assert.False(t, found[i].Usable())
		assert.Contains(t, found[i].Reason, want)
	}
}

// TestAFolderThatCannotBeRead: the list says so, and nothing blocks.
func TestAFolderThatCannotBeRead(t *testing.T) {
	base := testplugin.Folder(t)
	pipe := filepath.Join(base, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	failed := make(chan error, 1)
	go func() {
		_, err := pluginFiles(pipe)
		failed <- err
	}()
	select {
	case err := <-failed:
		assert.EqualError(t, err, "the plugin folder is not a folder")
	case <-time.After(time.Minute):
		f, err := os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0) // Let it go.
		require.NoError(t, err)
		defer f.Close()
		t.Fatal("it waits for a writer to open the pipe")
	}
	names, err := pluginFiles(base)
	assert.Empty(t, names)
	require.NoError(t, err)
	names, err = pluginFiles(filepath.Join(base, "missing"))
	assert.Empty(t, names)
	require.NoError(t, err)
}

// TestAFolderWithTooManyFiles: the folder is refused, since the choice of files to read would be
// arbitrary.
func TestAFolderWithTooManyFiles(t *testing.T) {
	dir := testplugin.Folder(t)
	for i := range maxDirEntries {
		require.NoError(t, os.Symlink("nothing", filepath.Join(dir, fmt.Sprint(i))))
	}
	_, err := pluginFiles(dir)
	require.NoError(t, err)
	testplugin.Put(t, dir, plugin.BinaryPrefix+"evict-zzz", nil)
	_, err = pluginFiles(dir)
	assert.ErrorContains(t, err, "holds more than 10000 files")
}
