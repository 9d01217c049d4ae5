package shm

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func connPair(t *testing.T) (*Conn, *Conn) {
	a, file, err := Pair("test")
	require.NoError(t, err)
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	b, err := NewConn(fd, "test")
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func openFDs(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

func TestMessagesWithDescriptors(t *testing.T) {
	a, b := connPair(t)
	m, err := Create("shm-test", 4096)
	require.NoError(t, err)
	defer m.Close()
	m.Bytes()[9] = 9
	buf := make([]byte, MaxMessage)
	require.NoError(t, a.Send(t.Context(), []byte("two"), m.FD(), m.FD()))
	require.NoError(t, a.Send(t.Context(), []byte("none")))
	n, fds, err := b.Receive(t.Context(), buf)
	require.NoError(t, err)
	assert.Equal(t, "two", string(buf[:n]))
	require.Len(t, fds, 2)
	theirs, err := Map(fds[1], MapOptions{Size: 4096})
	require.NoError(t, err)
	assert.EqualValues(t, 9, theirs.Bytes()[9])
	require.NoError(t, theirs.Close())
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.NotZero(t, flags&unix.FD_CLOEXEC, "child processes do not inherit it")
	}
	closeFDs(fds)
	n, fds, err = b.Receive(t.Context(), buf)
	require.NoError(t, err)
	assert.Equal(t, "none", string(buf[:n]))
	assert.Empty(t, fds)
}

func TestMessagesThatDoNotFit(t *testing.T) {
	a, b := connPair(t)
	require.Error(t, a.Send(t.Context(), nil))
	require.Error(t, a.Send(t.Context(), make([]byte, MaxMessage+1)))
	require.Error(t, a.Send(t.Context(), []byte("x"), make([]int, MaxFDs+1)...))
	m, err := Create("shm-test", 4096)
	require.NoError(t, err)
	defer m.Close()
	before := openFDs(t)
	require.NoError(t, a.Send(t.Context(), make([]byte, 100), m.FD()))
	_, fds, err := b.Receive(t.Context(), make([]byte, 99))
	require.Error(t, err)
	assert.Empty(t, fds)
	assert.Equal(t, before, openFDs(t), "Receive closes its descriptors")

	// With more descriptors than fit, some are lost in transit.
	raw, err := a.file.SyscallConn()
	require.NoError(t, err)
	many := make([]int, 3*MaxFDs)
	for i := range many {
		many[i] = m.FD()
	}
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), []byte("x"), unix.UnixRights(many...), nil, 0) }))
	require.NoError(t, err)
	_, fds, err = b.Receive(t.Context(), make([]byte, 99))
	require.Error(t, err)
	assert.Empty(t, fds)
	assert.Equal(t, before, openFDs(t))
}

func TestEndOfConn(t *testing.T) {
	a, b := connPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	buf := make([]byte, 8)
	_, _, err := b.Receive(ctx, buf)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, a.Send(t.Context(), []byte("after")))
	n, _, err := b.Receive(t.Context(), buf)
	require.NoError(t, err, "the context of an earlier call does not end a new one")
	require.Equal(t, 5, n)

	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; {
		err = a.Send(ctx, make([]byte, MaxMessage)) // The peer does not read.
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Send(t.Context(), []byte("x")), os.ErrClosed)
	for err = nil; err == nil; {
		_, _, err = b.Receive(t.Context(), make([]byte, MaxMessage))
	}
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, b.Send(t.Context(), []byte("x")), unix.EPIPE)

	_, err = NewConn(int(^uint(0)>>1), "test")
	require.Error(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	fd, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	r.Close()
	_, err = NewConn(fd, "test")
	require.Error(t, err, "a pipe is not a socket")
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[1])
	_, err = NewConn(fds[0], "test")
	require.ErrorIs(t, err, unix.EPROTOTYPE, "a stream socket does not preserve messages")
}
