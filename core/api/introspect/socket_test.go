package introspect

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// leftBehind is the socket of a process that was killed.
func leftBehind(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	return path
}

func TestThePlaces(t *testing.T) {
	env := map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/var/x"}
	p := StandardPlaces(func(k string) string { return env[k] })
	p.uid = 7
	assert.Equal(t, []string{"/run/user/7/mooncake/admin", "/run/mooncake/admin", "/var/x/mooncake-7", "/tmp/mooncake-7", "/dev/shm/mooncake-7"}, p.own())
	env = map[string]string{"XDG_RUNTIME_DIR": "relative", "TMPDIR": "relative"}
	p = StandardPlaces(func(k string) string { return env[k] })
	p.uid = 7
	assert.Equal(t, []string{"/run/mooncake/admin", "/tmp/mooncake-7", "/dev/shm/mooncake-7"}, p.own(), "what is relative does not count")
}

func TestTheFirstPlaceThatCanBeHad(t *testing.T) {
	dir := short(t)
	p := placesIn(dir)
	require.NoError(t, os.MkdirAll(p.temp, 0o777))
	got, err := p.ensure()
	require.NoError(t, err)
	assert.Equal(t, p.temporary(p.temp), got, "no folder is made where the system has none")
	require.NoError(t, os.Mkdir(p.run, 0o755))
	got, err = p.ensure()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(p.run, "mooncake", "admin"), got)
	require.NoError(t, os.Mkdir(p.runtime, 0o700))
	got, err = p.ensure()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(p.runtime, "mooncake", "admin"), got)
	info, err := os.Stat(got)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Folders that another user could have prepared are skipped.
func TestPlacesOfOthersAreNotUsed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"open to others": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o750))
		},
		"a link": func(t *testing.T, dir string) {
			target := short(t)
			require.NoError(t, os.Chmod(target, 0o700))
			require.NoError(t, os.Symlink(target, dir))
		},
		"a file": func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
		"of another user": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			if os.Chown(dir, 4711, 4711) != nil {
				t.Skip("only root gives folders away")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := placesIn(short(t))
			require.NoError(t, os.Mkdir(p.temp, 0o777))
			p.run, p.runtime = p.temp+"/none", ""
			first := p.temporary(p.temp)
			spoil(t, first)
			assert.Error(t, p.provide(first))
		})
	}
	p := placesIn(short(t))
	require.NoError(t, os.MkdirAll(filepath.Join(p.runtime, "mooncake"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(p.runtime, "mooncake"), 0o777))
	assert.ErrorContains(t, p.provide(filepath.Join(p.runtime, "mooncake", "admin")), "chmod")
	assert.ErrorContains(t, p.provide("/tmp/"+strings.Repeat("x", 80)), "too long")
}

func TestListenMakesAPrivateSocket(t *testing.T) {
	p := placesIn(short(t))
	require.NoError(t, os.Mkdir(p.run, 0o755))
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	ln, err := Listen(t.Context(), p, "store")
	require.NoError(t, err)
	info, err := os.Lstat(ln.Path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "whatever the umask is")
	assert.Equal(t, socketName("store", os.Getpid(), 0), filepath.Base(ln.Path()))
	second, err := Listen(t.Context(), p, "store")
	require.NoError(t, err, "the library opens several in one process")
	assert.NotEqual(t, ln.Path(), second.Path())
	entries, err := os.ReadDir(filepath.Dir(ln.Path()))
	require.NoError(t, err)
	assert.Len(t, entries, 2, "the names under which they were made are gone")
	require.NoError(t, ln.Close())
	require.NoError(t, second.Close())
	entries, err = os.ReadDir(filepath.Dir(ln.Path()))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestFindAndSweep(t *testing.T) {
	p := placesIn(short(t))
	require.NoError(t, os.Mkdir(p.run, 0o755))
	ln, err := Listen(t.Context(), p, "store")
	require.NoError(t, err)
	defer ln.Close()
	dir := filepath.Dir(ln.Path())
	gone := leftBehind(t, dir, "master-4242.sock")
	hidden := leftBehind(t, dir, ".master-1.01234567")
	fresh := leftBehind(t, dir, ".master-2.01234567")
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(hidden, long, long))
	foreign := leftBehind(t, dir, "other.sock")
	file := filepath.Join(dir, "master-77.sock")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	found := Find(p)
	require.Len(t, found.Sockets, 1)
	assert.Equal(t, Socket{Path: ln.Path(), Role: "store", PID: os.Getpid()}, found.Sockets[0])
	for _, path := range []string{gone, hidden} {
		assert.NoFileExists(t, path)
	}
	for _, path := range []string{fresh, foreign, file, ln.Path()} {
		_, err := os.Lstat(path)
		assert.NoError(t, err, "%s is not ours to remove", path)
	}
}

func TestListenAt(t *testing.T) {
	dir := short(t)
	path := filepath.Join(dir, "x.sock")
	leftBehind(t, dir, "x.sock")
	ln, err := ListenAt(t.Context(), path)
	require.NoError(t, err, "a dead one gives way")
	_, err = ListenAt(t.Context(), path)
	assert.ErrorContains(t, err, "in use")
	// Another process has taken the place meanwhile: its socket stays.
	require.NoError(t, os.Remove(path))
	other, err := ListenAt(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	_, err = os.Lstat(path)
	require.NoError(t, err)
	require.NoError(t, other.Close())

	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err = ListenAt(t.Context(), path)
	assert.ErrorContains(t, err, "in use")
	assert.FileExists(t, path)
	_, err = ListenAt(t.Context(), filepath.Join(dir, "no", "x.sock"))
	assert.True(t, errs.Is(err, errs.FileOpenFail), err)
	_, err = ListenAt(t.Context(), "/tmp/"+strings.Repeat("x", 200))
	assert.True(t, errs.Is(err, errs.InvalidParams), err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left of what failed")
}

// Many start and end at one path at a time: at most one has it, and whoever has it can be
// reached.
func TestOnePathManyProcesses(t *testing.T) {
	path := filepath.Join(short(t), "x.sock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	turns := make(chan int, 8)
	for range 8 {
		go func() {
			n := 0
			for range 40 {
				ln, err := ListenAt(ctx, path)
				if err != nil {
					continue
				}
				n++
				if c, err := net.Dial("unix", path); assert.NoError(t, err) {
					c.Close()
				}
				assert.NoError(t, ln.Close())
			}
			turns <- n
		}()
	}
	sum := 0
	for range 8 {
		sum += <-turns
	}
	assert.Positive(t, sum)
	_, err := os.Lstat(path)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestAnotherUserIsNotAnswered connects as another user, to a socket that was opened to all users
// by mistake.
func TestAnotherUserIsNotAnswered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := short(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "a.sock")
	serve(t, twoPlugins(), path)
	require.NoError(t, os.Chmod(path, 0o777))
	assert.Zero(t, askAs(t, 4711, path), "bytes of an answer")
	assert.Positive(t, askAs(t, 0, path))
}

// askAs asks as a user and returns the bytes of the answer.
func askAs(t *testing.T, uid int, path string) int {
	t.Helper()
	answer := make(chan int)
	var failed error
	go func() {
		defer close(answer)
		runtime.LockOSThread() // For good: the thread ends with the goroutine, whoever it has become.
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			failed = e
			return
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			failed = err
			return
		}
		defer syscall.Close(fd)
		if failed = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); failed != nil {
			return
		}
		_ = syscall.Sendto(fd, []byte("GET /v1/process HTTP/1.0\r\n\r\n"), syscall.MSG_NOSIGNAL, nil)
		n, _ := syscall.Read(fd, make([]byte, 4096))
		answer <- max(n, 0)
	}()
	n := <-answer
	require.NoError(t, failed)
	return n
}
