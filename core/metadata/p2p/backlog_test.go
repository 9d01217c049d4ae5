package p2p

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBacklog asks the system for the limit of a listener.
func TestBacklog(t *testing.T) {
	limit := func(backlog int) uint32 {
		ln, err := bind(t.Context(), DaemonOptions{BindHost: "127.0.0.1", Backlog: backlog}, 0)
		require.NoError(t, err)
		defer ln.Close()
		raw, err := ln.(*net.TCPListener).SyscallConn()
		require.NoError(t, err)
		var info *unix.TCPInfo
		require.NoError(t, raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
		require.NoError(t, err)
		return info.Sacked // of a listener: how many may wait
	}
	assert.EqualValues(t, 7, limit(7))
	assert.NotEqual(t, uint32(7), limit(0), "the system's own")
}
