package tcp

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// witness notes where the bytes of a connection come from and go to.
type witness struct {
	net.Conn
	see func(b []byte, n int)
}

func (w witness) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.see(b, n)
	return n, err
}

func (w witness) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.see(b, n)
	return n, err
}

// TestNoCopy: every byte of payload moves between a socket and the memory that the
// operation or the region names. Only headers and hellos pass through other memory.
func TestNoCopy(t *testing.T) {
	for _, size := range []int{1, 100, 5000, 64 << 10, 1 << 20} {
		const count = 20
		local := make([]byte, count*size)
		var r *pair
		var mu sync.Mutex
		var elsewhere, inPlace int
		see := func(b []byte, n int) {
			if n <= 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if inside(b, local) || inside(b, r.mem) {
				inPlace += n
			} else {
				elsewhere += n
			}
		}
		r = newPairSeen(t, count*size, func(c net.Conn) net.Conn { return witness{c, see} },
			func(c *Config) { c.ConnectionsPerPeer = 1 })
		r.pump(t, transport.Read, local, size, 16, count)
		r.pump(t, transport.Write, local, size, 16, count)
		s := r.client.Stats()
		require.NoError(t, r.client.Stop(context.Background()))
		require.NoError(t, r.server.Stop(context.Background()))
		// Each byte is seen at both ends, and so is each header.
		require.Equal(t, 2*2*count*size, inPlace, "size %d", size)
		headers := 2 * 2 * (2*count + int(s.Dials) + 1 /* goodbye */)
		require.LessOrEqual(t, elsewhere, headers*frame.Size, "size %d", size)
		require.Zero(t, s.DiscardedBytes)
	}
}

func inside(b, of []byte) bool {
	p, start := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(of)))
	return p >= start && p < start+uintptr(len(of))
}

// TestFewCalls: a batch of small operations shares its calls into the socket.
func TestFewCalls(t *testing.T) {
	const size, count = 4096, 32
	r := newPair(t, size*count, func(c *Config) { c.ConnectionsPerPeer = 1 })
	local := make([]byte, size*count)
	r.pump(t, transport.Read, local, size, count, 4*count)
	before, served := r.client.Stats(), r.server.Stats()
	ops := make([]transport.Op, count)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Read, Local: local[i*size:][:size], Remote: r.id, Offset: uint64(i * size)}
	}
	r.ok(t, ops...)
	require.LessOrEqual(t, r.client.Stats().WriteCalls-before.WriteCalls, uint64(1), "one call asks for all of them")
	require.LessOrEqual(t, r.server.Stats().WriteCalls-served.WriteCalls, uint64(1), "one call answers all of them")
}

// TestCallsPerMiB: the sender of a payload makes one call for a slice including its header. The
// receiver reads into all of the missing range, not chunk by chunk. The kernel decides how much one
// read returns; on loopback the smallest amount is about 64 KiB.
func TestCallsPerMiB(t *testing.T) {
	const size, count, depth, readsPerMiB = 1 << 20, 64, 16, 48
	r := newPair(t, depth*size)
	local := make([]byte, depth*size)
	for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
		r.pump(t, kind, local, size, depth, 2*depth)
		client, server := r.client.Stats(), r.server.Stats()
		r.pump(t, kind, local, size, depth, count)
		c, s := r.client.Stats(), r.server.Stats()
		// One write for a request or its payload at the client, one for the answer at the server;
		// a call that the kernel cuts short is made again.
		require.LessOrEqual(t, c.WriteCalls-client.WriteCalls, uint64(count*3/2), "kind %v", kind)
		require.LessOrEqual(t, s.WriteCalls-server.WriteCalls, uint64(count*3/2), "kind %v", kind)
		reads := c.ReadCalls - client.ReadCalls + s.ReadCalls - server.ReadCalls
		require.LessOrEqual(t, reads, uint64(count*readsPerMiB), "kind %v", kind)
		t.Logf("kind %v, calls for %d MiB: client writes %d, server writes %d, reads %d",
			kind, count, c.WriteCalls-client.WriteCalls, s.WriteCalls-server.WriteCalls, reads)
	}
}

// TestNoGarbage: operations allocate nothing once the path has warmed up.
func TestNoGarbage(t *testing.T) {
	if testing.CoverMode() != "" || socket.RaceBuild {
		t.Skip("instrumented builds allocate")
	}
	const size, depth = 64 << 10, 16
	r := newPair(t, size*depth)
	local := make([]byte, size*depth)
	for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
		r.pump(t, kind, local, size, depth, 20*depth)
		ops := make([]transport.Op, depth)
		for i := range ops {
			ops[i] = transport.Op{ID: uint64(i), Kind: kind, Local: local[i*size:][:size], Remote: r.id, Offset: uint64(i * size)}
		}
		dst := make([]transport.Completion, depth)
		allocs := testing.AllocsPerRun(50, func() {
			n, _ := r.path.Submit(ops)
			for n > 0 {
				got, _ := r.path.Reap(context.Background(), dst)
				n -= got
			}
		})
		require.Less(t, allocs, float64(depth)/4, "for %d operations", depth)
	}
}

// TestIdleConnectionLeaves: a connection without work is given up, and made again for work.
func TestIdleConnectionLeaves(t *testing.T) {
	r := newPair(t, 4096)
	r.client.cfg.IdleTimeout = 20 * time.Millisecond // The server's would cut what has just begun.
	buf := make([]byte, 4096)
	for i := range 3 {
		r.ok(t, r.read(buf))
		until(t, "the idle connection is gone", func() bool { return r.client.Stats().ConnectionsOut == 0 })
		require.EqualValues(t, i+1, r.client.Stats().Dials)
	}
	require.Zero(t, r.client.Stats().ConnectionsCut)
	require.Zero(t, r.client.Stats().OpsFailed)
}

// TestPoolIsBounded: however much is submitted, a path has at most its connections, and
// uses them all for large work.
func TestPoolIsBounded(t *testing.T) {
	r := newPair(t, 32<<20, func(c *Config) { c.ConnectionsPerPeer = 3 })
	r.pump(t, transport.Read, make([]byte, 32<<20), 1<<20, 32, 200)
	require.EqualValues(t, 3, r.client.Stats().Dials)
	require.EqualValues(t, 3, r.server.Stats().ConnectionsIn)
}
