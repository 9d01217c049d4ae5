package tcp

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestUpstreamConnections: no more connections than connections, at most 16, whatever is submitted;
// they are used again, and one request is in flight on each.
func TestUpstreamConnections(t *testing.T) {
	for connections, want := range map[int]int{1: 1, 3: 3, 64: upstream.MaxConnections} {
		var open, most, busy atomic.Int64
		gate := make(chan struct{})
		r, s := against(t, 2, 1<<20, func(c net.Conn) {
			for {
				h, more := request(c)
				if !more {
					return
				}
				if n := open.Add(1); n > most.Load() {
					most.Store(n)
				}
				busy.Add(1)
				<-gate
				open.Add(-1)
				_, _ = c.Write(append(upstream.PutStatus(make([]byte, 8), 0), make([]byte, h.Size)...))
			}
		}, func(c *Config) {
			c.ConnectionsPerPeer = connections
		})
		buf := make([]byte, 1<<20)
		var ops []transport.Op
		for i := range 100 {
			ops = append(ops, transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[i*100:][:100], Remote: r.id})
		}
		n, err := r.path.Submit(ops)
		require.NoError(t, err)
		require.Equal(t, 100, n)
		until(t, "every connection is busy", func() bool { return int(busy.Load()) == want })
		close(gate)
		dst := make([]transport.Completion, 100)
		for n := 0; n < 100; {
			got, err := r.path.Reap(context.Background(), dst[n:])
			require.NoError(t, err)
			n += got
		}
		for _, c := range dst {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
		}
		require.Equal(t, want, s.accepted())
		require.LessOrEqual(t, int(most.Load()), want)
		require.EqualValues(t, want, r.client.Stats().ConnectionsOut)
	}
}

// TestUpstreamCut: an operation goes out in as many requests as there are connections, none
// smaller than a slice.
func TestUpstreamCut(t *testing.T) {
	r := upPair(t, 2, 1<<20, func(c *Config) { c.SliceBytes, c.ConnectionsPerPeer = 64<<10, 4 })
	buf := make([]byte, 1<<20)
	for size, want := range map[int]uint64{1: 1, 64 << 10: 1, 64<<10 + 1: 2, 1 << 20: 4, 1<<20 - 5: 4} {
		before := r.server.Stats().ServedReads
		r.ok(t, r.read(buf[:size]))
		require.Equal(t, want, r.server.Stats().ServedReads-before, size)
	}
}

// TestUpstreamAfterRejection: the next operation does not go out on the connection that the
// peer closes.
func TestUpstreamAfterRejection(t *testing.T) {
	for _, version := range []int{1, 2} {
		r := newPair(t, 4096, func(c *Config) { c.ConnectionsPerPeer = 1 })
		b := bufferOf(r.mem)
		b.Length *= 2 // More than the peer has.
		ep, keys, err := r.client.Translate(transport.PeerSegment{Host: "127.0.0.1", Segment: transport.Segment{
			Protocol: "tcp", DataPort: r.server.Segment().DataPort, DataVersion: version, Buffers: []transport.Buffer{b},
		}})
		require.NoError(t, err)
		r.key = keys[0]
		r.dial(t, ep)
		buf := make([]byte, 4097)
		for range 300 {
			got := r.run(t, r.read(buf), transport.Op{ID: 9, Kind: transport.Read, Local: buf[:4096], Remote: r.id})
			require.EqualValues(t, 1, got[0].ID)
			require.Equal(t, errs.ClassTransientPeer, got[0].Class(), "%v", got[0].Err)
			require.Equal(t, transport.OK, got[1].Status, "%v", got[1].Err)
		}
	}
}

// TestUpstreamRejectionEndsTheConnection at once: were it up for a moment longer, its writer could
// put the next operation on it.
func TestUpstreamRejectionEndsTheConnection(t *testing.T) {
	r := upPair(t, 2, 64)
	conn, peer := net.Pipe()
	defer func() { _ = peer.Close() }()
	c := &connection{p: r.path, conn: conn, wake: make(chan struct{}, 1), depth: 1, up: true}
	r.path.mu.Lock()
	o := r.path.Accept(&transport.Op{ID: 7, Kind: transport.Read, Local: make([]byte, 64)}, time.Now())
	r.path.mu.Unlock()
	o.cut = 64
	ch := &chunk{op: o, conn: c, buf: o.Local, size: 64, state: chunkWaiting}
	o.chunks, c.slots[0] = []*chunk{ch}, ch
	require.Error(t, c.answerUpstream(upstream.PutStatus(make([]byte, 8), upstream.StatusRejected)))
	r.path.mu.Lock()
	up := c.up
	r.path.mu.Unlock()
	require.False(t, up)
	dst := make([]transport.Completion, 1)
	_, err := r.path.Reap(context.Background(), dst)
	require.NoError(t, err)
	require.EqualValues(t, 7, dst[0].ID)
	require.Equal(t, errs.InvalidKey, errs.CodeOf(dst[0].Err))
}

// TestUpstreamAbsent: a peer that is not there fails operations at once, with the advice
// for that, and is tried again.
func TestUpstreamAbsent(t *testing.T) {
	r := upPair(t, 2, 64, single)
	require.NoError(t, r.server.Stop(context.Background()))
	got := r.run(t, r.write(make([]byte, 64)))[0]
	require.Equal(t, transport.Failed, got.Status)
	require.Equal(t, errs.ClassTransientPeer, got.Class(), "%v", got.Err)
	var e *errs.Error
	require.True(t, errors.As(got.Err, &e))
	require.NotEmpty(t, e.Hint)
}

// TestUpstreamKeysStayApart: a key of ours does not go with an upstream endpoint, nor the
// other way round.
func TestUpstreamKeysStayApart(t *testing.T) {
	r := newPair(t, 64)
	ours, path := r.key, r.path
	r.dialUpstream(t, 2, r.server.Segment().DataPort)
	_, err := r.path.Import(context.Background(), ours)
	require.True(t, errs.Is(err, errs.InvalidKey), "%v", err)
	_, err = path.Import(context.Background(), r.key)
	require.True(t, errs.Is(err, errs.InvalidKey), "%v", err)
}
