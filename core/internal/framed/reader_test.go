package framed

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnnouncedBytesTakeNoMemory: what a client only announces takes less than it could announce.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	conn, err := ln.Accept()
	require.NoError(t, err)
	defer conn.Close()
	var r Reader
	require.NoError(t, r.Open(conn, 512, nil))
	_, err = c.Write(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	b, err := r.Into(nil, Uncounted)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, b, 100)
	require.LessOrEqual(t, cap(b), 2*step)
}
