package rdma

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestPollFailsWithResults: what a reaper fetched before its poll failed is not lost.
func TestPollFailsWithResults(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	fine(t, c.p, c.read(1, 0, 64))
	q := c.client.devices[0].Queues()[0]
	t.Cleanup(func() { q.Polled.Store(0) })
	var done [1]transport.Completion
	write := func(id uint64) {
		_, err := c.p.Submit([]transport.Op{c.write(id, 0, 64)})
		require.NoError(t, err)
	}
	end := time.Now().Add(short)
	for id := uint64(2); ; id++ { // Until the queue's goroutine leaves it to reapers, for an hour.
		q.Polled.Store(time.Now().Add(time.Hour).UnixNano())
		if q.Idle.Load() {
			break
		}
		require.True(t, time.Now().Before(end), "the queue's goroutine never leaves it to reapers")
		write(id)
		eventually(t, "a completion", func() bool { q.Poll(); return c.p.Pending() > 0 })
		c.p.Take(done[:])
		time.Sleep(time.Millisecond) // It may be on its way.
	}
	c.buf[0] = 7
	write(1 << 40)
	eventually(t, "the bytes arrive", func() bool { return c.mem[0] == 7 })
	failed := w.FailCall("ibv_poll_cq", -1, 1, 1, syscall.EIO)
	eventually(t, "the completion", func() bool { q.Poll(); return c.p.Pending() > 0 })
	require.Equal(t, 1, failed.Hits())
	c.p.Take(done[:])
	require.Equal(t, transport.OK, done[0].Status, "%v", done[0].Err)
}

// TestSegmentWhileADeviceFails: a region that was registered without a device that fails at
// this moment is published for the others.
func TestSegmentWhileADeviceFails(t *testing.T) {
	cfg, _ := fakes(t, 2)
	n := launch(t, cfg())
	n.devices[1].Lost.Store(true)
	share(t, n, 1, 4096)
	s := n.Segment()
	require.Len(t, s.Devices, 1)
	require.Len(t, s.Buffers, 1)
	require.Len(t, s.Buffers[0].RKeys, 1)
}

// TestGreedyPeer: what a peer asks for counts by its queue pairs, so that max_endpoints bounds
// what strangers can take of a device.
func TestGreedyPeer(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := cfg()
	c.MaxEndpoints = 4
	n := launch(t, c)
	for _, want := range []int{255, 4, 1} {
		m := &handshake.Message{
			LocalPath: "peer@fake0", PeerPath: "here@fake0", GID: n.devices[0].Address().Text,
			QueuePairs: make([]uint32, want), Own: &handshake.Own{Incarnation: n.env.Incarnation, MTU: 1024, PSN: make([]uint32, want)},
		}
		for i := range m.QueuePairs {
			m.QueuePairs[i] = uint32(i + 1)
		}
		a, r := n.inbound.Admit(m)
		require.Equal(t, want != 4, a == nil, r.Reply)
		t.Cleanup(func() { a.End(handshake.EndStopping) })
	}
	require.Equal(t, 4, w.Live(os.Getpid())["qp"])
}
