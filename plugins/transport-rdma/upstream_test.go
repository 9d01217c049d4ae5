package rdma

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestUpstream moves content both ways over one connection.
func TestUpstream(t *testing.T) {
	for name, strip := range map[string]func(bool, *handshake.Message) *handshake.Message{
		"two rounds": func(_ bool, m *handshake.Message) *handshake.Message { return m },
		"one round":  func(_ bool, m *handshake.Message) *handshake.Message { m.Ready = nil; return m },
		"the address is only in the descriptor": func(request bool, m *handshake.Message) *handshake.Message {
			if !request {
				m.GID = ""
			}
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := library(t, 1)
			l := newLegacy(t, func() *Config {
				c := cfg()
				if onDevices() {
					c.Devices = []string{"rxe0"}
				}
				return c
			}, 1<<20)
			l.a.bend, l.b.bend = strip, strip
			fill(l.ma, 1)
			fine(t, l.pa, l.write(1, 0, 1<<20))
			require.True(t, bytes.Equal(l.ma, l.mb))
			fill(l.mb, 2)
			fine(t, l.pb, l.writeBack(1, 5, 1<<20-5))
			require.True(t, bytes.Equal(l.ma[5:], l.mb[5:]))
			require.EqualValues(t, 1, l.a.n.Stats().Dials, "one connection for both")
			require.Zero(t, l.b.n.Stats().Dials)
			fine(t, l.pa, l.write(2, 0, 100))
		})
	}
}

// TestBothAtOnce: when both begin at the same time, both arrive.
func TestBothAtOnce(t *testing.T) {
	cfg, _ := fakes(t, 1)
	for range 20 {
		l := newLegacy(t, cfg, 4096)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				p, op := l.pa, l.write(uint64(i), 0, 100)
				if i%2 == 0 {
					p, op = l.pb, l.writeBack(uint64(i), 100, 100)
				}
				if n, err := p.Submit([]transport.Op{op}); n != 1 || err != nil {
					t.Errorf("submit: %d, %v", n, err)
				}
			})
		}
		wg.Wait()
		for _, p := range []*path{l.pa, l.pb} {
			dst := make([]transport.Completion, 1)
			for range 2 {
				_, err := p.Reap(within(t), dst)
				require.NoError(t, err)
				if dst[0].Status != transport.OK { // Both met in the middle; the next one works.
					require.Equal(t, errs.ClassTransientPath, dst[0].Class(), "%v", dst[0].Err)
				}
			}
		}
		eventually(t, "it works", func() bool {
			return run(t, l.pa, l.write(10, 0, 10))[10].Status == transport.OK && run(t, l.pb, l.writeBack(11, 0, 10))[11].Status == transport.OK
		})
	}
}

func TestUpstreamRefuses(t *testing.T) {
	cfg, _ := fakes(t, 1)
	l := newLegacy(t, cfg, 4096)
	try := func(bend func(bool, *handshake.Message) *handshake.Message, text string) {
		t.Helper()
		l.b.bend = bend
		op := l.write(1, 0, 10)
		op.Deadline = time.Now().Add(short)
		got := run(t, l.pa, op)[1]
		require.Equal(t, transport.Failed, got.Status)
		require.ErrorContains(t, got.Err, text)
		require.Equal(t, errs.ClassTransientPeer, got.Class(), "%v", got.Err)
		eventually(t, "the pause ends", func() bool { return l.pa.Rails()[0].Up })
	}
	only := func(requests bool, change func(*handshake.Message)) func(bool, *handshake.Message) *handshake.Message {
		return func(request bool, m *handshake.Message) *handshake.Message {
			if request == requests {
				change(m)
			}
			return m
		}
	}
	try(only(true, func(m *handshake.Message) { m.QueuePairs = append(m.QueuePairs, 7) }), "MC_NUM_QP_PER_EP")
	try(only(false, func(m *handshake.Message) { m.QueuePairs = append(m.QueuePairs, 7) }), "MC_NUM_QP_PER_EP")
	try(only(true, func(m *handshake.Message) { m.PeerPath = "gamma:1@fake0" }), `this node is "beta:2", not "gamma:1"`)
	try(only(true, func(m *handshake.Message) { m.PeerPath = "beta:2@mlx5_7" }), `device "mlx5_7" cannot be used`)
	try(only(true, func(m *handshake.Message) { m.PeerPath = "nonsense" }), "not names of devices")
	try(only(false, func(m *handshake.Message) { m.PeerPath = "other@fake0" }), "instead of")
	try(only(false, func(m *handshake.Message) { m.Reply = "no" }), "the peer refused: no")
	try(only(false, func(m *handshake.Message) {
		m.Reply = "QP count mismatch in peer and local endpoints, check MC_MAX_EP_PER_CTX"
	}), "set MC_NUM_QP_PER_EP")
	try(only(true, func(m *handshake.Message) { m.GID = "00:00" }), "GID")
	_, err := l.b.n.Accept(within(t), []byte("null"))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	l.b.bend = func(_ bool, m *handshake.Message) *handshake.Message { return m }
	fine(t, l.pa, l.write(1, 0, 10))
}

// TestSecondRoundMissing: the side that answered waits for the second round, within bounds.
func TestSecondRoundMissing(t *testing.T) {
	cfg, _ := fakes(t, 1)
	l := newLegacy(t, func() *Config {
		c := cfg()
		c.ReadyTimeout = plugin.Duration(50 * time.Millisecond)
		return c
	}, 4096)
	var pass atomic.Bool
	l.b.bend = func(request bool, m *handshake.Message) *handshake.Message {
		if request && !pass.Load() && m.Ready != nil && *m.Ready {
			return nil
		}
		return m
	}
	got := run(t, l.pa, l.write(1, 0, 10))[1]
	require.Equal(t, transport.Failed, got.Status)
	got = run(t, l.pb, l.writeBack(1, 0, 10))[1]
	if got.Status != transport.OK {
		require.ErrorContains(t, got.Err, "did not end the handshake")
	}
	pass.Store(true)
	eventually(t, "it works", func() bool { return run(t, l.pa, l.write(2, 0, 10))[2].Status == transport.OK })
}

// TestUpstreamRestarts: a node that comes back under its name is reached again; a Write that
// was in flight is in quarantine, since no component can tell its outcome.
func TestUpstreamRestarts(t *testing.T) {
	cfg, _ := fakes(t, 1)
	l := newLegacy(t, cfg, 4096)
	fine(t, l.pa, l.write(1, 0, 10))
	require.NoError(t, l.b.n.Stop(within(t)))
	got := run(t, l.pa, l.write(2, 0, 10))[2]
	require.Equal(t, transport.Quarantined, got.Status, "%v", got.Err)
	require.Equal(t, errs.ClassTransientPath, got.Class())

	fresh := launch(t, cfg())
	fresh.Join("beta:2")
	mem, _ := share(t, fresh, 1, 4096)
	l.b.n = fresh
	p, id := l.a.dial(t, l.b.segment())
	fill(l.ma, 9)
	eventually(t, "it works", func() bool {
		return run(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: l.ma, Remote: id})[1].Status == transport.OK
	})
	require.True(t, bytes.Equal(l.ma, mem))
}

func TestTranslate(t *testing.T) {
	cfg, _ := fakes(t, 2)
	c := cfg()
	c.ServerName, c.MaxMRSize = "10.0.0.1:12345", 4096
	n := launch(t, c)
	n.Join("alpha:1")
	share(t, n, 1, 10_000)
	own(t, n, 2, 64)
	s := n.Segment()
	require.Equal(t, "rdma", s.Protocol)
	require.Equal(t, "10.0.0.1:12345", s.ServerName)
	require.Len(t, s.Buffers, 3, "a buffer for each chunk, none of what is not for peers")
	require.Equal(t, "*", s.Buffers[0].Name)
	require.Equal(t, s.Buffers[0].Addr+4096, s.Buffers[1].Addr)
	require.Len(t, s.Buffers[0].RKeys, 2)
	require.Len(t, s.Buffers[0].LKeys, 2)

	peer := transport.PeerSegment{Segment: s, Name: "alpha:1", Host: "127.0.0.1", Port: 9}
	ep, ks, err := n.Translate(peer)
	require.NoError(t, err)
	require.Len(t, ks, 3)
	again, ks2, err := n.Translate(peer)
	require.NoError(t, err)
	require.Equal(t, ep, again)
	require.Equal(t, ks, ks2)
	peer.Buffers[1].RKeys = nil
	_, ks, err = n.Translate(peer)
	require.NoError(t, err)
	require.Nil(t, ks[1], "not open to peers")
	for name, spoil := range map[string]func(*transport.PeerSegment){
		"another protocol": func(p *transport.PeerSegment) { p.Protocol = "tcp" },
		"no port":          func(p *transport.PeerSegment) { p.Port = 0 },
		"no host":          func(p *transport.PeerSegment) { p.Host = "" },
		"no name":          func(p *transport.PeerSegment) { p.Name = "" },
		"no device":        func(p *transport.PeerSegment) { p.Devices = nil },
		"bad GID":          func(p *transport.PeerSegment) { p.Devices = []transport.Device{{Name: "x", GID: "12"}} },
		"no device name":   func(p *transport.PeerSegment) { p.Devices = []transport.Device{{GID: s.Devices[0].GID}} },
	} {
		bad := peer
		spoil(&bad)
		_, _, err := n.Translate(bad)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
	}
	c.Upstream = false
	other := launch(t, c)
	_, err = other.Dial(within(t), ep)
	require.Equal(t, errs.NotSupported, errs.CodeOf(err))
	require.False(t, errors.Is(err, transport.ErrPathClosed))
}
