package tcp

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/stretchr/testify/require"
)

// TestFarWindow: a connection to a far peer takes little of what waits before its first answer, and
// more with each answer, up to its share.
func TestFarWindow(t *testing.T) {
	const size = 1 << 20
	r, f := throughProxy(t, size, func(c *Config) { c.ConnectionsFar = 1 })
	buf := make([]byte, size)
	r.ok(t, r.write(buf[:1]))
	locked := func(do func(l *connection)) {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		require.Len(t, r.path.conns, 1)
		do(r.path.conns[0])
	}
	locked(func(*connection) { r.path.far = true })
	f.set(swallow)
	op := patient(r.write(buf))
	op.ID = 1
	r.submit(t, op)
	taken := int64(0)
	until(t, "the connection waits for an answer", func() bool {
		locked(func(l *connection) { taken = l.inflight })
		return taken >= farWindow
	})
	require.EqualValues(t, farWindow, taken)
	locked(func(l *connection) {
		for _, ch := range l.slots {
			if ch != nil {
				l.quietSince = time.Now()
				l.resolve(ch, nil)
				break
			}
		}
	})
	until(t, "it takes more", func() bool {
		locked(func(l *connection) { taken = l.inflight })
		return taken > farWindow
	})
	require.EqualValues(t, farWindow+farChunk, taken, "what the answered chunk left, and one more")
	locked(func(l *connection) {
		l.window = size
		require.EqualValues(t, size, l.share(), "no more than its share")
		r.path.far = false
		l.window = 0
		require.EqualValues(t, size, l.share(), "the window is for far peers")
	})
}

// TestPatience: what a distant peer gets, whose lost packets are sent again after seconds.
func TestPatience(t *testing.T) {
	var g socket.Gauge
	require.Equal(t, 10*time.Second, g.Stall(10*time.Second), "no round trip was measured")
	g.Least.Store(uint32((socket.DistantRTT - 1) / time.Microsecond))
	require.Equal(t, 10*time.Second, g.Stall(10*time.Second))
	g.Least.Store(uint32(socket.DistantRTT / time.Microsecond))
	require.Equal(t, socket.MorePatience*10*time.Second, g.Stall(10*time.Second))
	require.Equal(t, time.Second, (*socket.Gauge)(nil).Stall(time.Second))
}

// A link that loses packets while bytes move is slow to recover: it gets more silence. A peer that
// is gone does not, although the kernel sends its packets again and again.
func TestPatienceWithLosses(t *testing.T) {
	var g socket.Gauge
	now := time.Unix(1000, 0)
	g.Note(100, 0, now)
	require.Equal(t, 1, g.Patience())
	g.Note(100, 5, now.Add(time.Second))
	require.Equal(t, 1, g.Patience(), "nothing has moved since the losses")
	g.Note(200, 5, now.Add(2*time.Second))
	require.Equal(t, socket.MorePatience, g.Patience())
	g.Note(200, 9, now.Add(time.Hour))
	require.Equal(t, socket.MorePatience, g.Patience(), "silence does not make the link better")
	g.Note(300, 9, now.Add(2*time.Hour))
	g.Note(400, 9, now.Add(2*time.Hour+socket.LossMemory))
	require.Equal(t, socket.MorePatience, g.Patience())
	g.Note(500, 9, now.Add(2*time.Hour+socket.LossMemory+1))
	require.Equal(t, 1, g.Patience())
}
