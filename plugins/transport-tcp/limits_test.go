package tcp

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestByteLimit: a peer that does not answer makes Submit stop at max_inflight_bytes; one
// operation larger than that is accepted alone.
func TestByteLimit(t *testing.T) {
	r := newPair(t, 16<<20, func(c *Config) { c.MaxInflightBytes = 5 << 20 })
	r.dial(t, frozen(t, r.server.Endpoint()))
	buf := make([]byte, 16<<20)
	var ops []transport.Op
	for i := range 16 {
		ops = append(ops, transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf[i<<20:][:1<<20], Remote: r.id})
	}
	n, err := r.path.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = r.path.Submit(ops[5:])
	require.NoError(t, err)
	require.Zero(t, n)

	r.dial(t, frozen(t, r.server.Endpoint()))
	n, err = r.path.Submit([]transport.Op{r.read(buf), r.read(buf[:1])})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestOpLimit counts operations that were not reaped, done or not.
func TestOpLimit(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.MaxInflightOps = 3 })
	ops := []transport.Op{r.read(nil), r.read(nil), r.read(make([]byte, 1)), r.read(nil)}
	n, err := r.path.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	dst := make([]transport.Completion, 1)
	_, err = r.path.Reap(context.Background(), dst)
	require.NoError(t, err)
	n, err = r.path.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestDeadlineWhileSending: a Write whose payload the peer does not take ends at its
// deadline, and its buffer is free then.
func TestDeadlineWhileSending(t *testing.T) {
	r := newPair(t, 64<<20, func(c *Config) {
		c.StallTimeout, c.SliceBytes, c.ConnectionsPerPeer = plugin.Duration(limit), 64<<20, 1
	})
	r.dial(t, frozen(t, r.server.Endpoint()))
	buf := make([]byte, 64<<20) // More than the sockets hold.
	n, err := r.path.Submit([]transport.Op{r.write(buf)})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	until(t, "the connection sends", func() bool { return r.client.Stats().WriteCalls >= 2 })
	r.expireNow()
	c := r.reap(t)
	require.Equal(t, transport.Quarantined, c.Status, "the peer holds a chunk of it")
	require.True(t, errs.Is(c.Err, errs.RPCTimeout), "%v", c.Err)
	fillWith(buf[:1<<20], 1) // The race detector watches.
}

// TestSendBuffer: bounded within a machine, at both ends, unless it is configured.
func TestSendBuffer(t *testing.T) {
	for configured, want := range map[int]int{0: socket.LocalSendBuffer, 64 << 10: 64 << 10} {
		var mu sync.Mutex
		var conns []syscall.Conn
		r := newPairSeen(t, 64, func(c net.Conn) net.Conn {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c.(syscall.Conn))
			return c
		}, func(c *Config) { c.SendBuffer = configured })
		r.ok(t, r.read(make([]byte, 64)))
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, conns, 2)
		for _, c := range conns {
			raw, err := c.SyscallConn()
			require.NoError(t, err)
			var got int
			require.NoError(t, raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF) }))
			require.NoError(t, err)
			require.LessOrEqual(t, got, 2*want, "Linux doubles it, and has a limit of its own")
			require.GreaterOrEqual(t, got, min(2*want, 400<<10))
		}
	}
}

// TestConnectionLimit: the node refuses connections above max_connections with a reason, and serves
// the peers once others have disconnected.
func TestConnectionLimit(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.MaxConnections, c.ConnectionsPerPeer = 1, 1 })
	other := r.greeted(t)
	op := r.read(make([]byte, 10))
	n, err := r.path.Submit([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	until(t, "the path was turned away", func() bool { return r.server.Stats().Refused["busy"] > 0 })
	require.NoError(t, other.Close())
	dst := make([]transport.Completion, 1)
	_, err = r.path.Reap(context.Background(), dst)
	require.NoError(t, err)
	require.Equal(t, transport.OK, dst[0].Status, "%v", dst[0].Err)
}
