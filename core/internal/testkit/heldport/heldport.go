// Package heldport gives tests ports that stay theirs while nobody listens there.
//
// A port that was found free and given back may be anybody's by the time it is used: another
// listener's, or the near end of some connection, even of one to that very port.
package heldport

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Address returns "127.0.0.1:port". Connections there are refused until the test listens on
// it, which it may do as often as it likes: the port is held to the test's end by a socket
// that is bound and does not listen. Listeners need SO_REUSEADDR, which those of Go and of
// the usual servers have.
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
