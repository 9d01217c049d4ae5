package local_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// asNobody runs f on a thread of its own that is another user to the kernel.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with the goroutine.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			done <- errno
			return
		}
		done <- f()
	}()
	require.NoError(t, <-done)
}

// TestAnotherUserIsRefused: neither side deals with another user, unless told to.
func TestAnotherUserIsRefused(t *testing.T) {
	p := startPool(t)
	for _, anybody := range []bool{false, true} {
		s, socket := startServer(t, p, func(c *serve.Config) { c.Any, c.PingTimeout = anybody, time.Minute })
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		asNobody(t, func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: socket}) })
		hello := append([]byte("mclocal1\x01"), make([]byte, 23)...)
		_, _ = unix.Write(fd, append(hello, 2, 0, 0, 0, 0x0a, 0)) // It may be refused before.
		b := make([]byte, 1)
		require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
		n, err := unix.Read(fd, b)
		if anybody {
			require.NoError(t, err)
			require.Equal(t, 1, n, "a welcome")
			require.Equal(t, 1, s.Figures().Attached)
		} else {
			require.True(t, n <= 0 && err != unix.EAGAIN, "%d %v", n, err) //nolint:errorlint // A plain errno.
			require.Zero(t, s.Figures().Attached)
		}
		require.NoError(t, unix.Close(fd))
	}

	socket := newSocket()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socket}))
	asNobody(t, func() error { return unix.Listen(fd, 1) })
	_, err = local.Attach(t.Context(), local.DefaultConfig(socket))
	require.Equal(t, errs.RPCFail, errs.CodeOf(err))
	require.ErrorContains(t, err, "served by user 65534")
}
