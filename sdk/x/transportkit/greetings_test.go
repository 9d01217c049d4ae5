package transportkit

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGreetings: the oldest connection that says nothing gives way, and one that said hello stays.
func TestGreetings(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	g := Greetings{Most: 2}
	var peers []net.Conn
	var over []func()
	var sheds []bool
	for i := range 5 {
		peer, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer peer.Close()
		conn, err := ln.Accept()
		require.NoError(t, err)
		defer conn.Close()
		end, shed := g.Begin(conn)
		peers, over, sheds = append(peers, peer), append(over, end), append(sheds, shed)
		if i == 1 {
			end() // The second has said hello.
		}
	}
	require.Equal(t, []bool{false, false, false, true, true}, sheds)
	for i, closed := range []bool{true, false, true, false, false} {
		wait := 30 * time.Second
		if !closed {
			wait = time.Millisecond // Nothing will come.
		}
		require.NoError(t, peers[i].SetReadDeadline(time.Now().Add(wait)))
		_, err := peers[i].Read(make([]byte, 1))
		require.Equal(t, closed, !errors.Is(err, os.ErrDeadlineExceeded), "peer %d: %v", i, err)
	}
	for _, end := range over {
		end()
		end()
	}
	require.Zero(t, g.open.Len())
}
