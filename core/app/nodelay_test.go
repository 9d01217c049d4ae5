package app

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// noDelay reads TCP_NODELAY of a connection.
func noDelay(t *testing.T, c net.Conn) bool {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var on int
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		on, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	}))
	require.NoError(t, failed)
	return on != 0
}
