package heldport_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
)

// TestAddress: only listeners of the test answer there, one at a time, repeatedly.
func TestAddress(t *testing.T) {
	addr := heldport.Address(t)
	refused := func() {
		_, err := net.Dial("tcp", addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	refused()
	for range 3 {
		ln, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		_, err = net.Listen("tcp", addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		near, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		far, err := ln.Accept()
		require.NoError(t, err)
		require.NoError(t, far.Close()) // This side gets the TIME_WAIT state.
		require.NoError(t, near.Close())
		require.NoError(t, ln.Close())
		refused()
	}
}
