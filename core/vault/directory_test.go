package vault

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memdir"
)

// TestUnfitDirectories: a directory that other users could change, or whose files would be written to a disk, is refused
// with what to do about it. So is what is no directory.
func TestUnfitDirectories(t *testing.T) {
	root := func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give files away")
		}
	}
	for name, c := range map[string]struct {
		path func(t *testing.T) string
		says []string
	}{
		"of a group": {func(t *testing.T) string {
			dir := memdir.Tmpfs(t)
			require.NoError(t, os.Chmod(dir, 0o770))
			return dir
		}, []string{"other users can write", "0770", "mkdir -m 700"}},
		"of all": {func(*testing.T) string { return "/dev/shm" }, []string{"other users can write", "1777", "/dev/shm/mooncake"}},
		"of another user": {func(t *testing.T) string {
			root(t)
			dir := memdir.Tmpfs(t)
			require.NoError(t, os.Chown(dir, 65534, 65534))
			return dir
		}, []string{"belongs to user 65534"}},
		"a folder in it is of another user": {func(t *testing.T) string {
			root(t)
			dir := memdir.Tmpfs(t)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "pool_node_1_0"), 0o700))
			require.NoError(t, os.Chown(filepath.Join(dir, "pool_node_1_0"), 65534, 65534))
			return dir
		}, []string{"belongs to user 65534"}},
		"a folder in it is a link": {func(t *testing.T) string {
			dir := memdir.Tmpfs(t)
			require.NoError(t, os.Symlink(memdir.Tmpfs(t), filepath.Join(dir, "pool_node_1_0")))
			return dir
		}, []string{"not a directory"}},
		"on a disk": {func(t *testing.T) string {
			var fs unix.Statfs_t
			dir := t.TempDir()
			require.NoError(t, unix.Statfs(dir, &fs))
			if fs.Type == unix.TMPFS_MAGIC {
				t.Skip("files for tests lie in memory here")
			}
			require.NoError(t, os.Chmod(dir, 0o700))
			return dir
		}, []string{"lies on a disk", "/dev/hugepages", "-o dax"}},
		"with pages of 1 GiB": {func(t *testing.T) string { return memdir.Mount(t, "hugetlbfs", "pagesize=1G,mode=0700") },
			[]string{"pages of 1024 MiB", "pagesize=2M"}},
		"a device": {func(*testing.T) string { return "/dev/null" }, []string{"is a device", "-o dax"}},
		"a file": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			return path
		}, []string{"neither a directory nor the socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), settings(c.path(t)))
			require.Error(t, err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// TestAFolderGoesWithItsLastFile: an owner without memory leaves nothing behind, and one with memory all of it.
func TestAFolderGoesWithItsLastFile(t *testing.T) {
	dir := memdir.Tmpfs(t)
	open := func() Vault {
		v, err := Open(t.Context(), settings(dir))
		require.NoError(t, err)
		return v
	}
	folders := func() int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	v := open()
	f, err := v.Make("lost", 0)
	require.NoError(t, err)
	require.NoError(t, keep(v, "m", "memory"))
	require.NoError(t, v.Close())
	require.NoError(t, v.Close(), "it may be closed again")
	require.NoError(t, f.Close())
	require.Equal(t, 1, folders())
	v = open()
	names, err := v.Names(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"m"}, names)
	require.NoError(t, v.Drop(t.Context(), "m"))
	require.NoError(t, v.Close())
	require.Zero(t, folders())
	_, err = v.Names(t.Context())
	require.ErrorIs(t, err, os.ErrClosed)
}

// TestARemovedFile: what an operator has removed does not come back, and what is no file is not used.
func TestARemovedFile(t *testing.T) {
	dir := memdir.Tmpfs(t)
	v, err := Open(t.Context(), settings(dir))
	require.NoError(t, err)
	f, err := v.Make("m", 0)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // It is memory.
	require.NoError(t, v.Keep(t.Context(), "m", f))
	folder := filepath.Join(dir, "pool_node_1_0")
	require.NoError(t, os.Remove(filepath.Join(folder, "m")))
	require.ErrorIs(t, v.Keep(t.Context(), "m", f), os.ErrNotExist)
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(folder, "link")))
	_, err = v.Take(t.Context(), "link")
	require.ErrorIs(t, err, unix.ELOOP)
	require.NoError(t, unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600))
	_, err = v.Take(t.Context(), "pipe")
	require.ErrorContains(t, err, "not a file")

	require.NoError(t, os.RemoveAll(folder))
	other, err := Open(t.Context(), settings(dir))
	require.NoError(t, err, "the lock went with the folder")
	require.NoError(t, v.Close())
	require.NoError(t, keep(other, "m", "of another"))
	require.Equal(t, "of another", func() string {
		f, err := other.Take(t.Context(), "m")
		require.NoError(t, err)
		return content(t, f)
	}(), "the first one does not touch what is there now")
	require.NoError(t, other.Close())
}

// TestSurvey: what is in use and what is not can be seen, and a look changes nothing.
func TestSurvey(t *testing.T) {
	dir := memdir.Tmpfs(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	idle, err := Open(t.Context(), settings(dir))
	require.NoError(t, err)
	require.NoError(t, keep(idle, "m", "memory"))
	s := settings(dir)
	s.Owner = "other"
	used, err := Open(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, idle.Close())
	page := uint64(os.Getpagesize())
	for range 2 {
		found, err := Survey(dir)
		require.NoError(t, err)
		require.False(t, found.DAX)
		require.ElementsMatch(t, []Left{{Folder: "pool_node_1_0", Bytes: page}, {Folder: "other_0", Used: true}}, found.Left)
		for _, l := range found.Left {
			require.Equal(t, l.Folder == "other_0", l.Of("other"))
		}
	}
	require.NoError(t, used.Close())
	_, err = Survey(filepath.Join(dir, "file"))
	require.ErrorIs(t, err, unix.ENOTDIR)
	_, err = Survey("/dev/shm")
	require.ErrorContains(t, err, "other users can write")
}
