package samehost

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// control of a connection between two addresses, after Tune; and whether it is within a host.
func tuned(t *testing.T, from, to string) (control string, within bool) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", to+":0")
	require.NoError(t, err)
	defer ln.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	// What the system takes where nothing is said may be this one, too.
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	get := func() string {
		var name string
		require.NoError(t, raw.Control(func(fd uintptr) {
			name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		}))
		require.NoError(t, err)
		return name
	}
	before := get()
	Tune(c)
	after := get()
	if before == after {
		return "", Is(c)
	}
	return after, Is(c)
}

func TestTune(t *testing.T) {
	name, within := tuned(t, "127.0.0.1", "127.0.0.1")
	require.True(t, within)
	require.Contains(t, []string{"", control}, name)
	name, within = tuned(t, "127.0.0.1", "127.0.0.2")
	require.False(t, within)
	require.Empty(t, name, "a remote connection is skipped")
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	require.False(t, Is(a))
	Tune(a)
}
