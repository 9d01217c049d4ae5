package find

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

// put installs a version of evict/fifo and returns its checksum.
func put(t *testing.T, dir, version string) string {
	t.Helper()
	m := testplugin.Manifest(evictID("fifo"), 1)
	m.Version = version
	file := testplugin.Put(t, testplugin.Folder(t), "fifo", testplugin.Script(t, m))
	done, err := Install(t.Context(), file, dir, kinds.API)
	require.NoError(t, err)
	return done.SHA256
}

func keptVersions(dir string) (out []string) {
	for _, k := range Versions(dir, evictID("fifo")) {
		out = append(out, k.Version)
	}
	return out
}

func TestVersionsSideBySide(t *testing.T) {
	dir, id := testplugin.Folder(t), evictID("fifo")
	current := func() string {
		p, err := ReadProgram(filepath.Join(dir, id.BinaryName()))
		require.NoError(t, err)
		return p.Manifest.Version
	}
	_, err := Rollback(t.Context(), dir, id, "", kinds.API)
	require.ErrorIs(t, err, errs.FileNotFound.Err())
	first := put(t, dir, "1.0.0")
	assert.Empty(t, keptVersions(dir))
	assert.Equal(t, first, put(t, dir, "1.0.0"))
	assert.Empty(t, keptVersions(dir), "the same bytes are not kept twice")
	put(t, dir, "1.1.0")
	put(t, dir, "1.2.0")
	assert.Equal(t, []string{"1.1.0", "1.0.0"}, keptVersions(dir))

	done, err := Rollback(t.Context(), dir, id, "", kinds.API)
	require.NoError(t, err)
	assert.Equal(t, "1.1.0", current())
	assert.Equal(t, "1.2.0", done.Before.Manifest.Version)
	assert.Equal(t, []string{"1.2.0", "1.0.0"}, keptVersions(dir), "what is in use is not among them")
	done, err = Rollback(t.Context(), dir, id, "1.0.0", kinds.API)
	require.NoError(t, err)
	assert.Equal(t, first, done.SHA256, "the same bytes")
	assert.Equal(t, []string{"1.1.0", "1.2.0"}, keptVersions(dir))
	_, err = Rollback(t.Context(), dir, id, "9.9.9", kinds.API)
	require.ErrorContains(t, err, "kept are 1.1.0, 1.2.0")

	entries := finder(t, Options{Dirs: []string{dir}}).Find(plugin.ID{})
	require.Len(t, entries, 1, "kept programs are not found as plugins")

	for _, version := range []string{"2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0", "2.5.0", "2.6.0"} {
		put(t, dir, version)
	}
	assert.Equal(t, []string{"2.5.0", "2.4.0", "2.3.0", "2.2.0", "2.1.0"}, keptVersions(dir), "the oldest make way")

	require.NoError(t, Uninstall(filepath.Join(dir, id.BinaryName())))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestWhatIsNotRolledBackTo: the rules for the files of plugins hold for kept ones.
func TestWhatIsNotRolledBackTo(t *testing.T) {
	dir, id := testplugin.Folder(t), evictID("fifo")
	put(t, dir, "1.0.0")
	put(t, dir, "1.1.0")
	kept := Versions(dir, id)[0].Path
	require.NoError(t, os.Chmod(kept, 0o777))
	_, err := Rollback(t.Context(), dir, id, "", kinds.API)
	require.ErrorIs(t, err, errs.FileOpenFail.Err())
	assert.ErrorContains(t, err, "can be changed by others")
	require.NoError(t, os.Chmod(kept, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(kept), 0o777))
	_, err = Rollback(t.Context(), dir, id, "", kinds.API)
	require.ErrorContains(t, err, "can be changed by others")
	require.NoError(t, os.Chmod(filepath.Dir(kept), 0o755))
	require.NoError(t, os.WriteFile(kept, []byte("no plugin"), 0o600))
	_, err = Rollback(t.Context(), dir, id, "", kinds.API)
	require.ErrorIs(t, err, errs.FileNotFound.Err())
}
