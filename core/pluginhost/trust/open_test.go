package trust

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
)

// TestWhatIsOpened: a program is opened only if its mode lets no other user change it.
func TestWhatIsOpened(t *testing.T) {
	dir := testplugin.Folder(t)
	path := testplugin.Put(t, dir, "program", []byte("x"))
	for mode, want := range map[os.FileMode]string{
		0o755:                 "",
		0o100:                 "",
		0o775:                 "chmod go-w " + path,
		0o757:                 "chmod go-w " + path,
		0o644:                 "not executable",
		0o755 | os.ModeSetuid: "setuid",
		0o755 | os.ModeSetgid: "setuid and setgid",
	} {
		require.NoError(t, os.Chmod(path, mode))
		f, err := Open(path)
		if want != "" {
			assert.ErrorContains(t, err, want, mode)
			continue
		}
		if os.Geteuid() != 0 && mode&0o400 == 0 {
			continue // only root can read it
		}
		require.NoError(t, err, mode)
		require.NoError(t, f.Close())
	}
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o755))
	_, err := Open(pipe)
	assert.ErrorContains(t, err, "not a regular file")
	_, err = Open(dir)
	assert.ErrorContains(t, err, "not a regular file")
}

// TestTheFoldersOfAProgram: no other user may write the folder that the program was found in, nor
// the one that it lies in. The sticky bit is not enough there, since others could add plugins.
func TestTheFoldersOfAProgram(t *testing.T) {
	home, found := testplugin.Folder(t), testplugin.Folder(t)
	testplugin.Put(t, home, "program", []byte("x"))
	path := filepath.Join(found, "program")
	require.NoError(t, os.Symlink(filepath.Join(home, "program"), path))
	for _, dir := range []string{home, found} {
		for _, mode := range []os.FileMode{0o777 | os.ModeSticky, 0o775 | os.ModeSticky, 0o777} {
			require.NoError(t, os.Chmod(dir, mode))
			_, err := Open(path)
			assert.ErrorContains(t, err, "chmod go-w "+dir)
			_, err = Folder(dir)
			assert.ErrorContains(t, err, "chmod go-w "+dir)
		}
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	f, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	real, err := Folder(found)
	require.NoError(t, err)
	assert.Equal(t, found, real)
}

// TestAProgramOfAThirdUser: it is refused. A program of root or of this user is not.
func TestAProgramOfAThirdUser(t *testing.T) {
	path := testplugin.Put(t, testplugin.Folder(t), "program", []byte("x"))
	info, err := os.Stat(path)
	require.NoError(t, err)
	uid := os.Geteuid()
	assert.NoError(t, checkOwner("file", path, info, uid))
	if uid != 0 {
		assert.ErrorContains(t, checkOwner("file", path, info, uid+1), "is neither root nor this user")
		return
	}
	assert.NoError(t, checkOwner("file", path, info, 1000), "root's is trusted")
	require.NoError(t, os.Chown(path, 54321, -1))
	_, err = Open(path)
	assert.ErrorContains(t, err, "belongs to user 54321")
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.NoError(t, checkOwner("file", path, info, 54321))
}
