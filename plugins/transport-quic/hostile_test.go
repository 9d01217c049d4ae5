package quic

import (
	"context"
	"crypto/tls"
	"io"
	"sync"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// stranger is a peer that speaks QUIC by itself, with whatever certificate.
func stranger(t *testing.T, to *node, certs ...tls.Certificate) (*quicgo.Conn, error) {
	e, err := wire.DecodeEndpoint(to.Endpoint().Blob)
	require.NoError(t, err)
	ctx := within(t)
	c, err := quicgo.DialAddr(ctx, e.Addrs[0], &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}, Certificates: certs, MinVersion: tls.VersionTLS13,
	}, &quicgo.Config{MaxIdleTimeout: patience})
	if err == nil {
		t.Cleanup(func() { _ = c.CloseWithError(0, "") })
	}
	return c, err
}

// friend is a stranger that is let in.
func friend(t *testing.T, to *node) *quicgo.Conn {
	id, err := identity.Ephemeral(time.Now())
	require.NoError(t, err)
	c, err := stranger(t, to, id.Cert)
	require.NoError(t, err)
	return c
}

func TestNoCertificateNoService(t *testing.T) {
	ca := newAuthority(t)
	for name, cfg := range map[string]*Config{"secure": newFiles(t).write(t, ca, ca, nodeCert()).config(), "insecure_dev": insecure()} {
		t.Run(name, func(t *testing.T) {
			server, _ := start(t, cfg)
			c, err := stranger(t, server)
			if err == nil { // The client's side of the handshake ends first.
				st, err := c.OpenStream()
				if err == nil {
					_, _ = st.Write([]byte("hello"))
					_, err = io.ReadAll(st)
				}
				require.ErrorContains(t, err, "certificate required")
			}
			require.Zero(t, server.Stats().Accepted)
		})
	}
}

// ask sends a request on a stream of its own and returns the answer.
func ask(t *testing.T, c *quicgo.Conn, raw []byte) (wire.Answer, error) {
	st, err := c.OpenStream()
	if err != nil {
		return wire.Answer{}, err
	}
	if _, err = st.Write(raw); err != nil {
		return wire.Answer{}, err
	}
	_ = st.Close() // Which fails where the peer has closed the connection meanwhile.
	b := make([]byte, wire.AnswerSize)
	if _, err := io.ReadFull(st, b); err != nil {
		return wire.Answer{}, err
	}
	var a wire.Answer
	require.NoError(t, a.Decode(b))
	return a, nil
}

func requestFor(t *testing.T, key transport.Key) wire.Request {
	k, err := wire.DecodeKey(key)
	require.NoError(t, err)
	return wire.Request{Type: wire.FrameRead, Length: 8, Incarnation: k.Incarnation, Region: k.Region, Token: k.Token, Patience: 60_000}
}

func raw(q wire.Request) []byte {
	b := make([]byte, wire.RequestSize)
	q.Put(b)
	return b
}

// TestRequestsThatAreRefused: each with its reason, and the connection goes on.
func TestRequestsThatAreRefused(t *testing.T) {
	server, _ := start(t, insecure())
	mem, key := served(t, server, 100)
	want := append([]byte(nil), mem...)
	secret, err := server.Register(within(t), transport.Region{ID: 2, Mem: make([]byte, 100), FD: -1, Access: transport.AccessLocal})
	require.NoError(t, err)
	c := friend(t, server)
	good, hidden := requestFor(t, key), requestFor(t, secret)
	for name, x := range map[string]struct {
		q   wire.Request
		why wire.Reason
	}{
		"token":                      {func() wire.Request { q := good; q.Token[3] ^= 1; return q }(), wire.ReasonWrongToken},
		"another region's":           {func() wire.Request { q := good; q.Region = 2; return q }(), wire.ReasonWrongToken},
		"region":                     {func() wire.Request { q := good; q.Region = 9; return q }(), wire.ReasonUnknownRegion},
		"incarnation":                {func() wire.Request { q := good; q.Incarnation++; return q }(), wire.ReasonStale},
		"past the end":               {func() wire.Request { q := good; q.Offset = 93; return q }(), wire.ReasonRange},
		"around the end":             {func() wire.Request { q := good; q.Offset = ^uint64(0) - 3; return q }(), wire.ReasonRange},
		"longer than all":            {func() wire.Request { q := good; q.Length = 101; return q }(), wire.ReasonRange},
		"no right to read":           {hidden, wire.ReasonReadDenied},
		"no right to write":          {func() wire.Request { q := hidden; q.Type = wire.FrameWrite; return q }(), wire.ReasonWriteDenied},
		"a write with a wrong token": {func() wire.Request { q := good; q.Type = wire.FrameWrite; q.Token[0] ^= 1; return q }(), wire.ReasonWrongToken},
	} {
		a, err := ask(t, c, raw(x.q))
		require.NoError(t, err, name)
		require.Equal(t, wire.FrameError, a.Type, name)
		require.Equal(t, x.why, a.Reason, name)
	}
	a, err := ask(t, c, raw(good))
	require.NoError(t, err)
	require.Equal(t, wire.FrameData, a.Type, "the connection still works")
	require.Equal(t, want, mem)
}

// TestGarbageEndsTheConnection, and no other.
func TestGarbageEndsTheConnection(t *testing.T) {
	server, h := start(t, insecure())
	client, _ := start(t, insecure())
	mem, key := served(t, server, 100)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	for name, change := range map[string]func(b []byte){
		"magic":     func(b []byte) { b[0]++ },
		"version":   func(b []byte) { b[2]++ },
		"type":      func(b []byte) { b[3] = 9 },
		"an answer": func(b []byte) { b[3] = byte(wire.FrameData) },
		"length":    func(b []byte) { b[7] = 0xff },
		"no bytes":  func(b []byte) { clear(b[4:8]) },
		"reserved":  func(b []byte) { b[60] = 1 },
	} {
		c := friend(t, server)
		b := raw(requestFor(t, key))
		change(b)
		_, err := ask(t, c, b)
		require.Error(t, err, name)
		<-c.Context().Done()
		require.Equal(t, wire.ReasonBadFrame, closedFor(context.Cause(c.Context())), name)
	}
	require.Contains(t, h.log(), "garbage")
	require.EqualValues(t, 7, server.Stats().Refused["bad-frame"])
	readOK(t, p, id, mem)
	require.EqualValues(t, 1, client.Stats().Dials, "the connection of another client was not touched")
}

// TestSlowPeersHoldNothing: a peer that begins a Write and stops keeps neither the region nor the
// node.
func TestSlowPeersHoldNothing(t *testing.T) {
	server, _ := start(t, insecure())
	mem, key := served(t, server, 1<<20)
	c := friend(t, server)
	q := requestFor(t, key)
	q.Type, q.Length = wire.FrameWrite, 1<<20
	var streams []*quicgo.Stream
	for _, sent := range [][]byte{raw(q)[:10], raw(q), append(raw(q), make([]byte, 1000)...)} {
		st, err := c.OpenStream()
		require.NoError(t, err)
		_, err = st.Write(sent)
		require.NoError(t, err)
		streams = append(streams, st)
	}
	until(t, "bytes of the last one are in place", func() bool {
		return server.regions.Get(1).Held() == 2
	})
	require.NoError(t, server.Deregister(within(t), 1))
	clear(mem) // The race detector watches.
	for _, st := range streams[1:] {
		_, err := io.ReadAll(st)
		var e *quicgo.StreamError
		require.ErrorAs(t, err, &e)
		require.Equal(t, streamCode(wire.ReasonDraining), e.ErrorCode)
	}
}

// TestStreamsShareALink: a request whose bytes pause is not given up while other requests of its
// connection move bytes, as they do on a slow link.
func TestStreamsShareALink(t *testing.T) {
	server := newNode(*insecure())
	server.cfg.StallTimeout = 500 * time.Millisecond // Validate asks for more. On a busy machine, too, bytes move within it.
	require.NoError(t, server.Start(context.Background(), &testHost{}))
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	mem, key := served(t, server, 100)
	c := friend(t, server)
	q := requestFor(t, key)
	q.Type, q.Length, q.Offset = wire.FrameWrite, 10, 50
	slow, err := c.OpenStream()
	require.NoError(t, err)
	_, err = slow.Write(append(raw(q), 1, 2, 3))
	require.NoError(t, err)
	q.Type, q.Length, q.Offset = wire.FrameRead, 8, 0
	for from := time.Now(); time.Since(from) < 3*server.cfg.StallTimeout; {
		a, err := ask(t, c, raw(q))
		require.NoError(t, err)
		require.Equal(t, wire.FrameData, a.Type)
	}
	_, err = slow.Write([]byte{4, 5, 6, 7, 8, 9, 10})
	require.NoError(t, err)
	var a wire.Answer
	b := make([]byte, wire.AnswerSize)
	_, err = io.ReadFull(slow, b)
	require.NoError(t, err)
	require.NoError(t, a.Decode(b))
	require.Equal(t, wire.FrameDone, a.Type)
	require.NoError(t, server.Deregister(within(t), 1)) // Which says to the race detector that mem is ours.
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, mem[50:60])
}

// TestCrowds: connections are bounded, for each peer and in all.
func TestCrowds(t *testing.T) {
	cfg := insecure()
	cfg.MaxConnections, cfg.MaxConnectionsPerPeer = 5, 2
	server, _ := start(t, cfg)
	_, key := served(t, server, 100)
	id, err := identity.Ephemeral(time.Now())
	require.NoError(t, err)
	in := func(cert tls.Certificate) (*quicgo.Conn, error) {
		c, err := stranger(t, server, cert)
		if err != nil {
			return nil, err
		}
		_, err = ask(t, c, raw(requestFor(t, key)))
		return c, err
	}
	var first *quicgo.Conn
	for range 2 {
		first, err = in(id.Cert)
		require.NoError(t, err)
	}
	_, err = in(id.Cert)
	require.Equal(t, wire.ReasonBusy, closedFor(err), "%v", err)
	for range 3 {
		other, err := identity.Ephemeral(time.Now())
		require.NoError(t, err)
		_, err = in(other.Cert)
		require.NoError(t, err)
	}
	other, err := identity.Ephemeral(time.Now())
	require.NoError(t, err)
	_, err = in(other.Cert)
	require.Error(t, err, "five are there already")
	require.GreaterOrEqual(t, server.Stats().Overflow, uint64(2))
	require.NoError(t, first.CloseWithError(0, ""))
	until(t, "places again", func() bool { return len(server.connections()) == 4 })
	_, err = in(id.Cert)
	require.NoError(t, err)
	server.mu.Lock()
	defer server.mu.Unlock()
	require.Zero(t, server.handshakes)
}

// scripted is a server that does with each connection what script says.
func scripted(t *testing.T, script func(c *quicgo.Conn)) (transport.Endpoint, transport.Key) {
	n := newNode(*insecure())
	id, err := identity.Load(&n.cfg.Config, n.clock())
	require.NoError(t, err)
	n.trust.Set(id)
	ln, err := quicgo.ListenAddr("127.0.0.1:0", n.trust.Server(), n.quicConfig(true))
	require.NoError(t, err)
	var conns []*quicgo.Conn
	var scripts sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			conns = append(conns, c)
			scripts.Go(func() { script(c) })
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		for _, c := range conns {
			_ = c.CloseWithError(0, "")
		}
		scripts.Wait()
	})
	e := wire.Endpoint{Incarnation: 7, Addrs: []string{ln.Addr().String()}, Pin: id.Pin}
	k := wire.Key{Incarnation: 7, Region: 1, Length: 1 << 20, Access: transport.AccessRemote}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: 7}, k.Encode()
}

// liar is a server that answers each request with what lie makes of it.
func liar(t *testing.T, lie func(q wire.Request) []byte) (transport.Endpoint, transport.Key) {
	return scripted(t, func(c *quicgo.Conn) {
		for {
			st, err := c.AcceptStream(context.Background())
			if err != nil {
				return
			}
			var q wire.Request
			b := make([]byte, wire.RequestSize)
			if _, err := io.ReadFull(st, b); err == nil && q.Decode(b) == nil {
				_, _ = st.Write(lie(q))
				_ = st.Close()
			}
		}
	})
}

// TestAnswersThatLie: a server's wrong answers fail the operation and touch no other memory.
func TestAnswersThatLie(t *testing.T) {
	client, _ := start(t, insecure())
	head := func(a wire.Answer, more int) []byte {
		b := make([]byte, wire.AnswerSize+more)
		a.Put(b)
		return b
	}
	for name, lie := range map[string]func(q wire.Request) []byte{
		"longer": func(q wire.Request) []byte {
			return head(wire.Answer{Type: wire.FrameData, Length: q.Length + 1}, int(q.Length)+1)
		},
		"shorter": func(q wire.Request) []byte {
			return head(wire.Answer{Type: wire.FrameData, Length: q.Length - 1}, int(q.Length)-1)
		},
		"cut off": func(q wire.Request) []byte {
			return head(wire.Answer{Type: wire.FrameData, Length: q.Length}, int(q.Length)-1)
		},
		"done for a read": func(wire.Request) []byte { return head(wire.Answer{Type: wire.FrameDone}, 0) },
		"a request":       func(q wire.Request) []byte { return raw(q) },
		"noise":           func(wire.Request) []byte { return []byte("HTTP/1.1 200 OK\r\n\r\n") },
		"nothing":         func(wire.Request) []byte { return nil },
		"strange error": func(wire.Request) []byte {
			return head(wire.Answer{Type: wire.FrameError, Reason: 200, Class: 99, Code: 5}, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ep, key := liar(t, lie)
			p, id := dialled(t, client, ep, key)
			mem := make([]byte, 300)
			c := one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: mem[100:200], Remote: id})
			require.Equal(t, transport.Failed, c.Status)
			require.Error(t, c.Err)
			require.Equal(t, make([]byte, 100), mem[:100])
			require.Equal(t, make([]byte, 100), mem[200:])
			c = one(t, p, transport.Op{ID: 2, Kind: transport.Write, Local: mem[100:200], Remote: id})
			if name != "done for a read" {
				require.NotEqual(t, transport.OK, c.Status)
			}
		})
	}
}

// TestEveryRefusalHasItsReason: also where the peer refuses before this side has ended its
// request.
func TestEveryRefusalHasItsReason(t *testing.T) {
	const ops, depth = 3000, 64
	server, _ := start(t, insecure())
	client, _ := start(t, insecure())
	key, err := server.Register(within(t), transport.Region{ID: 1, Mem: make([]byte, 4096), FD: -1, Access: transport.AccessLocal})
	require.NoError(t, err)
	p, id := dialled(t, client, server.Endpoint(), key)
	mem, dst := make([]byte, 4096), make([]transport.Completion, depth)
	for next, open := 0, 0; next < ops || open > 0; {
		for ; open < depth && next < ops; next, open = next+1, open+1 {
			n, err := p.Submit([]transport.Op{{ID: uint64(next), Kind: transport.Write, Local: mem, Remote: id}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		open -= n
		for _, c := range dst[:n] {
			require.Equal(t, transport.Failed, c.Status, "nothing is indeterminate: %v", c.Err)
			require.Equal(t, errs.ClassPermanent, c.Class(), "%v", c.Err)
		}
	}
}

// TestPeerAllowsFewerStreams: requests wait for a peer that takes fewer at once than this side
// would send.
func TestPeerAllowsFewerStreams(t *testing.T) {
	const ops = 400
	few, many := insecure(), insecure()
	few.StreamsPerConnection = 1
	many.StreamsPerConnection, many.ConnectionsPerPeer, many.ConnectionsLossy = 128, 1, 0
	server, _ := start(t, few)
	client, _ := start(t, many)
	mem, key := served(t, server, ops)
	p, id := dialled(t, client, server.Endpoint(), key)
	got, dst := make([]byte, ops), make([]transport.Completion, ops)
	var all []transport.Op
	for i := range ops {
		all = append(all, transport.Op{ID: uint64(i), Kind: transport.Read, Local: got[i:][:1], Remote: id, Offset: uint64(i)})
	}
	n, err := p.Submit(all)
	require.NoError(t, err)
	require.Equal(t, ops, n)
	for open := ops; open > 0; {
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
		}
		open -= n
	}
	require.Equal(t, mem, got)
}
