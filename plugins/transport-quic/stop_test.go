package quic

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// begun begins a Write of size bytes of which the last is missing.
func begun(t *testing.T, server *node, c *quicgo.Conn, key transport.Key, size int) *quicgo.Stream {
	t.Helper()
	q := requestFor(t, key)
	q.Type, q.Length, q.Patience = wire.FrameWrite, uint32(size), math.MaxUint32
	st, err := c.OpenStream()
	require.NoError(t, err)
	_, err = st.Write(append(raw(q), make([]byte, size-1)...))
	require.NoError(t, err)
	until(t, "it is begun", func() bool { return holding(server) == 1 })
	return st
}

// holding is how many requests are begun.
func holding(n *node) (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.mu.Lock()
		sum += len(c.begun)
		c.mu.Unlock()
	}
	return sum
}

// leaving waits until all connections of a node are told to leave.
func leaving(t *testing.T, n *node) {
	t.Helper()
	until(t, "its connections are leaving", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for c := range n.conns {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.leaving {
				return false
			}
		}
		return true
	})
}

// TestStopFinishesAndRefuses: a node that stops carries out what it had begun, answers it, refuses
// what comes meanwhile, and then says that it is stopping.
func TestStopFinishesAndRefuses(t *testing.T) {
	server, _ := start(t, insecure())
	server.linger = patience
	_, key := served(t, server, 100)
	c := friend(t, server)
	st := begun(t, server, c, key, 100)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(ctx) }()
	leaving(t, server)

	a, err := ask(t, c, raw(requestFor(t, key)))
	require.NoError(t, err)
	require.Equal(t, wire.FrameError, a.Type)
	require.Equal(t, wire.ReasonStopping, a.Reason)
	_, err = st.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	b := make([]byte, wire.AnswerSize)
	_, err = io.ReadFull(st, b)
	require.NoError(t, err, "the answer has time to arrive")
	require.NoError(t, a.Decode(b))
	require.Equal(t, wire.FrameDone, a.Type)
	a, err = ask(t, c, raw(requestFor(t, key)))
	require.NoError(t, err)
	require.Equal(t, wire.ReasonStopping, a.Reason, "also while it lingers")

	cancel()
	require.NoError(t, <-stopped)
	<-c.Context().Done()
	require.Equal(t, wire.ReasonStopping, closedFor(context.Cause(c.Context())))
}

// TestStopDoesNotWaitForever: a Write whose bytes do not come is cut off when the context ends,
// before the connection is closed.
func TestStopDoesNotWaitForever(t *testing.T) {
	cfg := insecure()
	cfg.StallTimeout = plugin.Duration(24 * time.Hour) // It waits for the bytes as long.
	cfg.OpTimeout = cfg.StallTimeout
	server, _ := start(t, cfg)
	mem, key := served(t, server, 100)
	c := friend(t, server)
	begun(t, server, c, key, 100)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, server.Stop(ctx))
	clear(mem) // The race detector watches.
	<-c.Context().Done()
	require.Equal(t, wire.ReasonStopping, closedFor(context.Cause(c.Context())))
}

// TestStopWhileAnotherIsAtIt: a caller without time gets an error, a caller with time waits for
// the end; none is told that it is over while memory is still in use.
func TestStopWhileAnotherIsAtIt(t *testing.T) {
	cfg := insecure()
	cfg.StallTimeout = plugin.Duration(24 * time.Hour) // It waits for the bytes as long.
	cfg.OpTimeout = cfg.StallTimeout
	server, _ := start(t, cfg)
	_, key := served(t, server, 100)
	begun(t, server, friend(t, server), key, 100)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := make(chan error, 1)
	go func() { first <- server.Stop(ctx) }()
	leaving(t, server)

	over, end := context.WithCancel(context.Background())
	end()
	require.ErrorIs(t, server.Stop(over), context.Canceled)
	second := make(chan error, 1)
	go func() { second <- server.Stop(context.Background()) }()
	require.Equal(t, 1, holding(server))
	require.Empty(t, first)
	require.Empty(t, second)
	cancel()
	require.NoError(t, <-first)
	require.NoError(t, <-second)
	require.Zero(t, holding(server))
	require.NoError(t, server.Stop(context.Background()))
}

// TestGoodbyeOfAPeer: a peer that closes a connection with no request unanswered leaves no Write
// indeterminate. A peer that closes it for another reason does.
func TestGoodbyeOfAPeer(t *testing.T) {
	indeterminate := map[wire.Reason]bool{wire.ReasonBadFrame: true, wire.ReasonTrust: true, wire.ReasonDraining: true}
	for _, why := range []wire.Reason{wire.ReasonStopping, wire.ReasonBusy, wire.ReasonIdle, wire.ReasonBadFrame, wire.ReasonTrust, wire.ReasonDraining} {
		for _, size := range []int{100, 1 << 20} { // The larger is more than the window of a stream that is not read.
			t.Run(fmt.Sprint(why.Info().Label, size), func(t *testing.T) {
				ep, key := leaver(t, why)
				cfg := insecure()
				cfg.SliceBytes, cfg.StreamWindow = 1<<20, 64<<10
				client, _ := start(t, cfg)
				p, id := dialled(t, client, ep, key)
				c := one(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: make([]byte, size), Remote: id})
				if indeterminate[why] {
					require.Equal(t, transport.Quarantined, c.Status, "%v", c.Err)
					return
				}
				require.Equal(t, transport.Failed, c.Status, "%v", c.Err)
				require.Equal(t, why.Info().Class, c.Class(), "%v", c.Err)
			})
		}
	}
}

// leaver is a server that closes a connection when it has read the head of a request.
func leaver(t *testing.T, why wire.Reason) (transport.Endpoint, transport.Key) {
	return scripted(t, func(c *quicgo.Conn) {
		st, err := c.AcceptStream(context.Background())
		if err != nil {
			return
		}
		if _, err := io.ReadFull(st, make([]byte, wire.RequestSize)); err == nil {
			_ = c.CloseWithError(code(why), "")
		}
	})
}

// TestRefusedConnections: QUIC itself says that a peer takes no connections, or that a handshake
// failed of which this side had seen the end. The peer carries nothing out there.
func TestRefusedConnections(t *testing.T) {
	for name, x := range map[string]struct {
		err  *quicgo.TransportError
		want outcome
	}{
		"refused":                {&quicgo.TransportError{Remote: true, ErrorCode: quicgo.ConnectionRefused}, disclaimed},
		"a certificate":          {&quicgo.TransportError{Remote: true, ErrorCode: 0x100 + 42}, disclaimed},
		"a certificate, by us":   {&quicgo.TransportError{ErrorCode: 0x100 + 42}, unknown},
		"an error of the peer's": {&quicgo.TransportError{Remote: true, ErrorCode: quicgo.InternalError}, unknown},
	} {
		require.Equal(t, x.want, left(fmt.Errorf("x: %w", x.err)), name)
	}
	p := newPath(newNode(*insecure()), wire.Endpoint{Addrs: []string{"a:1"}})
	defer p.cancel()
	require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(p.lost(&quicgo.TransportError{Remote: true, ErrorCode: quicgo.ConnectionRefused})))
}

// TestStopUnderWrites: a node that stops leaves nothing indeterminate with its peers, whatever it
// was at, and whatever they had sent.
func TestStopUnderWrites(t *testing.T) {
	const size, depth = 64 << 10, 64
	cfg := insecure()
	cfg.SliceBytes = 16 << 10
	for round := range 5 {
		server, _ := start(t, insecure())
		client, _ := start(t, cfg)
		_, key := served(t, server, size*depth)
		p, id := dialled(t, client, server.Endpoint(), key)
		ended := make(chan map[transport.Status]int)
		go func() {
			buf, out, got := make([]byte, size*depth), make([]transport.Completion, depth), map[transport.Status]int{}
			free := make([]uint64, depth) // No two Writes in flight are of the same memory.
			for i := range free {
				free[i] = uint64(i)
			}
			for got[transport.Failed] == 0 || len(free) < depth {
				for ; len(free) > 0 && got[transport.Failed] == 0; free = free[1:] {
					at := free[0] * size
					_, _ = p.Submit([]transport.Op{{ID: free[0], Kind: transport.Write, Local: buf[at:][:size], Remote: id, Offset: at}})
				}
				n, err := p.Reap(context.Background(), out)
				if err != nil {
					break
				}
				for _, c := range out[:n] {
					free = append(free, c.ID)
					got[c.Status]++
				}
			}
			ended <- got
		}()
		until(t, "writes are served", func() bool { return server.Stats().ServedWrites > uint64(37*round) })
		require.NoError(t, server.Stop(context.Background()))
		got := <-ended
		require.Zero(t, got[transport.Quarantined], "%v", got)
		require.Positive(t, got[transport.Failed])
	}
}

// TestRefusedInParts: a Write of which a chunk was refused is indeterminate only if another chunk
// is.
func TestRefusedInParts(t *testing.T) {
	reply := func(a wire.Answer) []byte { b := make([]byte, wire.AnswerSize); a.Put(b); return b }
	for name, x := range map[string]struct {
		second func(c *quicgo.Conn, st *quicgo.Stream) // what becomes of the other chunk
		want   transport.Status
	}{
		"both refused": {func(_ *quicgo.Conn, st *quicgo.Stream) { _, _ = st.Write(reply(wire.ReasonDraining.Answer())) }, transport.Failed},
		"one stored":   {func(_ *quicgo.Conn, st *quicgo.Stream) { _, _ = st.Write(reply(wire.Answer{Type: wire.FrameDone})) }, transport.Failed},
		"the peer left": {func(c *quicgo.Conn, _ *quicgo.Stream) {
			_ = c.CloseWithError(code(wire.ReasonStopping), "")
		}, transport.Failed},
		"one unknown": {func(c *quicgo.Conn, _ *quicgo.Stream) { _ = c.CloseWithError(code(wire.ReasonBadFrame), "") }, transport.Quarantined},
		"silence":     {func(*quicgo.Conn, *quicgo.Stream) {}, transport.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan struct{})
			ep, key := scripted(t, func(c *quicgo.Conn) {
				var st [2]*quicgo.Stream
				for i := range st {
					var err error
					if st[i], err = c.AcceptStream(context.Background()); err != nil {
						return
					}
					if _, err := io.ReadFull(st[i], make([]byte, wire.RequestSize)); err != nil {
						return
					}
				}
				_, _ = st[0].Write(reply(wire.ReasonDraining.Answer()))
				<-heard
				x.second(c, st[1])
			})
			cfg := insecure()
			cfg.ConnectionsPerPeer, cfg.ConnectionsLossy = 1, 0
			if name == "silence" {
				cfg.OpTimeout = plugin.Duration(500 * time.Millisecond)
			}
			client, _ := start(t, cfg)
			p, id := dialled(t, client, ep, key)
			_, err := p.Submit([]transport.Op{{ID: 1, Kind: transport.Write, Local: make([]byte, 2*cfg.SliceBytes), Remote: id}})
			require.NoError(t, err)
			until(t, "the first answer is heard", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				for o := range p.Active() {
					return o.err != nil
				}
				return true
			})
			close(heard)
			out := make([]transport.Completion, 1)
			_, err = p.Reap(within(t), out)
			require.NoError(t, err)
			require.Equal(t, x.want, out[0].Status, "%v", out[0].Err)
		})
	}
}
