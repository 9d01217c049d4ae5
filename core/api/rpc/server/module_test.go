package server

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/ports"
)

// A connection of a delayed listener has TCP_NODELAY off, which is on otherwise.
func TestDelayed(t *testing.T) {
	for _, slow := range []bool{false, true} {
		ln, err := ports.Probe(t.Context(), "master", "127.0.0.1", 0, "rpc_port")
		require.NoError(t, err)
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		if slow {
			ln = delayed{ln}
		}
		accepted, err := ln.Accept()
		require.NoError(t, err)
		defer accepted.Close()
		assert.Equal(t, slow, !noDelay(t, accepted))
	}
}

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
