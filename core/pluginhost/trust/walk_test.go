package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
)

// tree makes a/b/file in a fresh folder and returns the folder.
func tree(t *testing.T) string {
	t.Helper()
	dir := testplugin.Folder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "file"), []byte("x"), 0o644))
	return dir
}

func TestEveryFolderOnTheWayCounts(t *testing.T) {
	uid := os.Geteuid()
	dir := tree(t)
	file := filepath.Join(dir, "a", "b", "file")
	real, err := walk(file, uid)
	require.NoError(t, err)
	assert.Equal(t, file, real)

	for _, d := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")} {
		for _, mode := range []os.FileMode{0o775, 0o757} {
			require.NoError(t, os.Chmod(d, mode))
			_, err = walk(file, uid)
			assert.ErrorContains(t, err, "chmod go-w "+d)
		}
		require.NoError(t, os.Chmod(d, 0o777|os.ModeSticky))
		_, err = walk(file, uid)
		assert.NoError(t, err, "others cannot replace what is in a folder with the sticky bit")
		require.NoError(t, os.Chmod(d, 0o755))
	}
	_, err = walk("a/b", uid)
	assert.ErrorContains(t, err, "not an absolute path")
	_, err = walk(filepath.Join(file, "more"), uid)
	assert.ErrorContains(t, err, "is not a folder")
	_, err = walk(filepath.Join(dir, "none"), uid)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLinksOnTheWay(t *testing.T) {
	uid := os.Geteuid()
	dir, other := tree(t), tree(t)
	file := filepath.Join(dir, "a", "b", "file")
	link := func(target string, name ...string) string {
		path := filepath.Join(append([]string{other}, name...)...)
		require.NoError(t, os.Symlink(target, path))
		return path
	}
	for name, path := range map[string]string{
		"of the file":       link(file, "one"),
		"of a folder":       filepath.Join(link(filepath.Join(dir, "a"), "two"), "b", "file"),
		"relative":          filepath.Join(link("../../"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)+"/a", "three"), "b", "file"),
		"of a link":         link(filepath.Join(other, "one"), "four"),
		"with dots in it":   link(filepath.Join(dir, "a", ".", "b", "..", "b", "file"), "five"),
		"within the folder": link("b/../b/file", "a", "six"),
	} {
		real, err := walk(path, uid)
		require.NoError(t, err, name)
		want, err := filepath.EvalSymlinks(path)
		require.NoError(t, err)
		assert.Equal(t, want, real, name)
	}
	link("loop", "loop")
	_, err := walk(filepath.Join(other, "loop"), uid)
	assert.ErrorContains(t, err, "too many symbolic links")

	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o777))
	_, err = walk(filepath.Join(other, "one"), uid)
	assert.ErrorContains(t, err, "chmod go-w "+filepath.Join(dir, "a"), "where the link leads counts")
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.Chmod(other, 0o777))
	_, err = walk(filepath.Join(other, "one"), uid)
	assert.ErrorContains(t, err, "chmod go-w "+other, "and where it lies")
}

// TestOwnersOnTheWay: folders and links of a third user are refused.
func TestOwnersOnTheWay(t *testing.T) {
	dir := tree(t)
	file := filepath.Join(dir, "a", "b", "file")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	uid := os.Geteuid()
	if uid != 0 {
		_, err := walk(file, uid+1)
		assert.ErrorContains(t, err, "is neither root nor this user")
		t.Skip("only root can give files to others")
	}
	const stranger = 54321
	for _, path := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")} {
		require.NoError(t, os.Chown(path, stranger, -1))
		_, err := walk(link, uid)
		assert.ErrorContains(t, err, "the folder "+path+" belongs to user 54321")
		_, err = walk(link, stranger)
		assert.NoError(t, err, "its own user may")
		require.NoError(t, os.Chown(path, 0, -1))
	}
	require.NoError(t, os.Lchown(link, stranger, -1))
	_, err := walk(link, uid)
	assert.ErrorContains(t, err, "the symbolic link "+link+" belongs to user 54321")
}

func TestUsersThatANamespaceDoesNotKnow(t *testing.T) {
	number := func() string { return "65534" }
	assert.Equal(t, -1, overflowIn("         0          0 4294967295\n", number), "every user is known")
	assert.Equal(t, 65534, overflowIn("         0       1000          1\n", number))
	assert.Equal(t, -1, overflowIn("0 1000 1", func() string { return "" }))
}
