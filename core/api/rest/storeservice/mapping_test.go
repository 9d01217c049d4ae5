package storeservice_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
)

func (w *world) mountShm(name string) (int, string) {
	rec := w.do("POST", "/api/mount_shm", `{"name":"`+name+`","size":4096}`)
	return rec.Code, rec.Body.String()
}

// TestOnlyFilesOfTheFolderAreMapped: whatever else is there is refused, and nothing waits.
func TestOnlyFilesOfTheFolderAreMapped(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	outside := filepath.Join(t.TempDir(), "secret")
	secret := make([]byte, 4096)
	require.NoError(t, os.WriteFile(outside, secret, 0o600))
	at := func(name string) string { return filepath.Join(w.dir, name) }
	require.NoError(t, os.Symlink(outside, at("link")))
	require.NoError(t, os.Symlink("shm-1", at("inner")))
	require.NoError(t, os.Mkdir(at("folder"), 0o700))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	socket, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, os.WriteFile(at("readonly"), secret, 0o400))
	require.NoError(t, os.WriteFile(at("empty"), nil, 0o600))
	for _, name := range []string{"link", "folder", "pipe", "socket", "empty", "none"} {
		code, body := w.mountShm(name)
		assert.Equal(t, 500, code, "%s: %s", name, body)
	}
	if os.Geteuid() != 0 { // Root may write every file.
		code, body := w.mountShm("readonly")
		assert.Equal(t, 500, code, body)
	}
	left, err := os.ReadFile(outside)
	require.NoError(t, err)
	assert.Equal(t, secret, left)
	assert.Empty(t, w.Segments())
}

// TestOnlyAllowedFilesAreMapped: without the setting none is, and a link does not lead to another.
func TestOnlyAllowedFilesAreMapped(t *testing.T) {
	none := newWorld(t, storeservice.Options{Files: []string{}})
	code, body := none.mountShm("shm-1")
	assert.Equal(t, 403, code)
	assert.Contains(t, body, "--rest_files")
	code, _ = none.decode("shm-1")
	assert.Equal(t, 403, code, "reconfigure maps files, too")

	w := &world{pool: newPool(), dir: none.dir}
	w.Service = storeservice.New(w.pool, w.pool, storeservice.Options{Dirs: []string{w.dir}, Files: []string{w.dir + "/kv"}})
	at := func(name string) string { return filepath.Join(w.dir, name) }
	page := make([]byte, 8192)
	require.NoError(t, os.Mkdir(at("other"), 0o700))
	for _, name := range []string{"kv-0", "other/file"} {
		require.NoError(t, os.WriteFile(at(name), page, 0o600))
	}
	require.NoError(t, os.Symlink("shm-1", at("kv-link")))
	require.NoError(t, os.Symlink("other", at("kv-folder")))
	for _, name := range []string{"shm-1", "kv-link"} {
		code, body := w.mountShm(name)
		assert.NotEqual(t, 200, code, "%s: %s", name, body)
	}
	for _, name := range []string{"kv-folder/file", "kv/../shm-1"} {
		code, _ := w.decode(name)
		assert.Equal(t, 403, code, name)
	}
	assert.Empty(t, w.Segments())
	code, body = w.mountShm("kv-0")
	require.Equal(t, 200, code, body)
	require.Equal(t, 200, w.do("POST", "/api/unmount_shm", `{"segment_ids":"7-1"}`).Code)
}

// TestARangeIsMountedOnce: two nodes over one range would each overwrite the other's objects.
func TestARangeIsMountedOnce(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	other := &world{pool: newPool(), dir: w.dir}
	other.Service = storeservice.New(other.pool, other.pool, storeservice.Options{Dirs: []string{w.dir}, Files: []string{w.dir + "/"}})
	code, body := w.mountShm("shm-1")
	require.Equal(t, 200, code, body)
	code, body = other.mountShm("shm-1")
	assert.Equal(t, 500, code)
	assert.Contains(t, body, "mounted already")
	require.Equal(t, 200, w.do("POST", "/api/unmount_shm", `{"segment_ids":"7-1"}`).Code)
	code, body = other.mountShm("shm-1")
	require.Equal(t, 200, code, body)
	require.Equal(t, 200, other.do("POST", "/api/unmount_shm", `{"segment_ids":"7-1"}`).Code)
}

// TestWritesReachTheFile: the memory is shared with whoever has the file.
func TestWritesReachTheFile(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	code, body := w.mountShm("shm-1") // The fake writes the first and the last byte.
	require.Equal(t, 200, code, body)
	data, err := os.ReadFile(filepath.Join(w.dir, "shm-1"))
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2, 0}, []byte{data[0], data[4095], data[4096]})
	require.Equal(t, 200, w.do("POST", "/api/unmount_shm", `{"segment_ids":"7-1"}`).Code)
}

// TestAFileMustHaveRoom: pages that its file system cannot provide would end the process.
func TestAFileMustHaveRoom(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	var system unix.Statfs_t
	require.NoError(t, unix.Statfs(w.dir, &system))
	beyond := int64(system.Blocks*uint64(system.Bsize)) + 1<<30
	sparse := filepath.Join(w.dir, "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o600))
	if err := os.Truncate(sparse, beyond); err != nil {
		t.Skipf("the file system takes no sparse file of %d bytes: %v", beyond, err)
	}
	rec := w.do("POST", "/api/mount_shm", `{"name":"sparse","size":`+itoa(beyond)+`}`)
	assert.Equal(t, 500, rec.Code)
	assert.Contains(t, rec.Body.String(), "its file system has room for")
	code, body := w.mountShm("sparse")
	require.Equal(t, 200, code, "a small range of it fits: %s", body)
	require.Equal(t, 200, w.do("POST", "/api/unmount_shm", `{"segment_ids":"7-1"}`).Code)
}
