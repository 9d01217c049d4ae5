package shm

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sockets returns both ends of a connection of package net.
func sockets(t *testing.T, network string) (*net.UnixConn, *net.UnixConn) {
	ln, err := net.ListenUnix(network, &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: network})
	require.NoError(t, err)
	defer ln.Close()
	a, err := net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	b, err := ln.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.UnixConn), b
}

func sendRights(t *testing.T, c *net.UnixConn, b string, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix([]byte(b), oob, nil)
	require.NoError(t, err)
}

// TestReadMsg checks on both kinds of sockets that descriptors arrive up to the expected number,
// and that a refused message leaves no descriptor open.
func TestReadMsg(t *testing.T) {
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	fd := int(file.Fd())
	for _, network := range []string{"unix", "unixpacket"} {
		for _, c := range []struct{ sent, most int }{{0, 0}, {0, 3}, {1, 1}, {1, 0}, {2, 1}, {3, 1}, {3, 3}, {4, 3}, {MaxFDs, MaxFDs}, {MaxFDs + 1, MaxFDs}, {MaxFDs + 1, MaxFDs + 9}} {
			a, b := sockets(t, network)
			var fds []int
			for range c.sent {
				fds = append(fds, fd)
			}
			sendRights(t, a, "text", fds...)
			before, buf := openFDs(t), make([]byte, 8)
			n, got, err := ReadMsg(b, buf, c.most)
			if c.sent > min(c.most, MaxFDs) {
				require.ErrorIs(t, err, ErrMessage, "%s %+v", network, c)
				require.Empty(t, got)
			} else {
				require.NoError(t, err, "%s %+v", network, c)
				require.Equal(t, "text", string(buf[:n]))
				require.Len(t, got, c.sent)
				for _, fd := range got {
					flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
					require.NoError(t, err)
					require.NotZero(t, flags&unix.FD_CLOEXEC)
				}
				closeFDs(got)
			}
			require.Equal(t, before, openFDs(t), "%s %+v", network, c)
			require.NoError(t, a.Close())
			_, _, err = ReadMsg(b, buf, 1)
			require.Equal(t, io.EOF, err)
		}
	}
}

// TestReadMsgLength checks that ReadMsg refuses a message that is longer than the buffer, and that
// it returns the rest of a stream next time.
func TestReadMsgLength(t *testing.T) {
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	buf := make([]byte, 3)

	a, b := sockets(t, "unixpacket")
	sendRights(t, a, "long", int(file.Fd()))
	before := openFDs(t)
	_, _, err = ReadMsg(b, buf, 1)
	require.ErrorIs(t, err, ErrMessage)
	require.Equal(t, before, openFDs(t))

	a, b = sockets(t, "unix")
	sendRights(t, a, "long", int(file.Fd()))
	n, fds, err := ReadMsg(b, buf, 1)
	require.NoError(t, err)
	require.Equal(t, "lon", string(buf[:n]))
	require.Len(t, fds, 1)
	closeFDs(fds)
	n, fds, err = ReadMsg(b, buf, 1)
	require.NoError(t, err)
	require.Equal(t, "g", string(buf[:n]))
	require.Empty(t, fds)
}
