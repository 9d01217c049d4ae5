package tcp

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// latch is a connection whose Write of size bytes sends them, says so once on sent, and then
// does not return before let is closed.
type latch struct {
	net.Conn
	size int
	sent chan<- struct{}
	let  <-chan struct{}
}

func (l latch) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if len(b) == l.size {
		l.sent <- struct{}{}
		<-l.let
	}
	return n, err
}

// goodbye has a path hear that its peer stops, which has answered neither of two Writes: it
// awaits the answer to the first, and is still at sending the second, so that its connection
// has heard it and is not reclaimed. Then a new connection is refused, which fails both Writes.
// It returns how they ended.
func goodbye(t *testing.T) (awaited, sending transport.Completion) {
	const first, second, third = 4096, 8192, 512 // Neither is the size of a batch of headers.
	sent, let, got := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	r := newPairSeen(t, second, func(c net.Conn) net.Conn { return latch{c, second, sent, let} },
		single, slow, func(c *Config) { c.ConnectionsPerPeer = 2 })
	leave := make(chan struct{})
	s := talk(t, r, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, frame.Size+first)); err != nil {
			return
		}
		close(got)
		<-leave
		_, _ = c.Write(encoded(frame.ReasonStopping.Answer(frame.GoAway, 0)))
		_, _ = io.Copy(io.Discard, c)
	})
	depart, release := sync.OnceFunc(func() { close(leave) }), sync.OnceFunc(func() { close(let) })
	t.Cleanup(depart)
	t.Cleanup(release)

	buf := make([]byte, second)
	write := func(id uint64, size int) {
		op := r.write(buf[:size])
		op.ID = id
		r.submit(t, op)
	}
	write(1, first)
	<-got
	write(2, second)
	<-sent // The writer has handed the first over to the reader before it began with this.
	require.NoError(t, s.ln.Close())
	depart()
	until(t, "the goodbye is heard", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return len(r.path.conns) == 1 && r.path.conns[0].renounced && !r.path.conns[0].up
	})
	write(3, third) // It needs a new connection.
	ended := map[uint64]transport.Completion{}
	for range 2 {
		c := r.reap(t)
		ended[c.ID] = c
	}
	require.Contains(t, ended, uint64(1))
	require.Equal(t, transport.Failed, ended[3].Status, "%v", ended[3].Err)
	require.EqualValues(t, 1, r.client.Stats().DialsFailed)
	release()
	return ended[1], r.reap(t)
}

// TestGoodbyeThenRefusal: an operation that a stopping peer has not answered is not indeterminate, also where
// it was given up, as the peer takes no connection any more, before the connection that heard
// the goodbye was at its end.
func TestGoodbyeThenRefusal(t *testing.T) {
	t.Run("its answer awaited", func(t *testing.T) {
		c, _ := goodbye(t)
		require.Equal(t, transport.Failed, c.Status, "%v", c.Err)
	})
	t.Run("still being sent", func(t *testing.T) {
		_, c := goodbye(t)
		require.EqualValues(t, 2, c.ID)
		require.Equal(t, transport.Failed, c.Status, "%v", c.Err)
	})
}
