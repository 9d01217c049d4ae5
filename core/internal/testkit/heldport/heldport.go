// Package heldport gives tests ports that stay reserved while no listener is there.
//
// A port that was found free and released may be taken by the time the test uses it: by another
// listener, or as the local end of a connection, even of a connection to that very port.
package heldport

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Address returns "127.0.0.1:port". Connections to it are refused until the test listens there,
// which it may do repeatedly. A socket that is bound and does not listen reserves the port until
// the test ends. Listeners need SO_REUSEADDR, which Go and most servers set.
func Address(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*unix.SockaddrInet4).Port))
}
