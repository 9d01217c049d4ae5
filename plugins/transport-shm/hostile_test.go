package shm

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// connect connects to a transport without being one.
func connect(t *testing.T, n *node) wire.Conn {
	c, err := wire.Dial(t.Context(), n.self.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// greet is connect with a proper hello.
func greet(t *testing.T, n *node) wire.Conn {
	c := connect(t, n)
	require.NoError(t, c.Send(wire.Message{Type: wire.MsgHello, Number: n.self.Incarnation, Token: n.self.Secret}, -1))
	m, _, err := c.Receive()
	require.NoError(t, err)
	require.Equal(t, wire.MsgWelcome, m.Type)
	return c
}

// until reads messages to the end of the connection and returns the last reason that was told.
func until(t *testing.T, c wire.Conn) (why wire.Reason) {
	for {
		m, fd, err := c.Receive()
		wire.CloseFD(fd)
		if err != nil {
			require.True(t, wire.Ended(err), "%v", err)
			if m, fd, err = c.Receive(); err != nil { // A reset comes before what was sent.
				return why
			}
			wire.CloseFD(fd)
		}
		if m.Type == wire.MsgGoAway {
			why = m.Reason
		}
	}
}

// TestHostilePeers: a peer that sends nonsense is told so and disconnected; other peers do not
// notice.
func TestHostilePeers(t *testing.T) {
	r := newPair(t, 1<<20)
	k, err := wire.DecodeKey(r.key)
	require.NoError(t, err)
	raw := func(change func(b *[wire.MessageSize]byte), m wire.Message) []byte {
		var b [wire.MessageSize]byte
		m.Put(&b)
		change(&b)
		return b[:]
	}
	plain := func(*[wire.MessageSize]byte) {}
	hello := wire.Message{Type: wire.MsgHello, Number: r.server.self.Incarnation, Token: r.server.self.Secret}
	attach := wire.Message{Type: wire.MsgAttach, Handle: 7, Number: k.Region, Token: k.Token}
	for name, c := range map[string]struct {
		say  [][]byte
		want wire.Reason
	}{
		"noise":           {[][]byte{make([]byte, 20)}, wire.ReasonProtocol},
		"an empty packet": {[][]byte{{}}, wire.ReasonProtocol},
		"too long":        {[][]byte{make([]byte, 4096)}, wire.ReasonProtocol},
		"no hello":        {[][]byte{raw(plain, attach)}, wire.ReasonProtocol},
		"another version": {[][]byte{raw(func(b *[wire.MessageSize]byte) { b[4] = 2 }, hello)}, wire.ReasonVersion},
		"wrong secret":    {[][]byte{raw(func(b *[wire.MessageSize]byte) { b[32] ^= 1 }, hello)}, wire.ReasonStale},
		"old incarnation": {[][]byte{raw(func(b *[wire.MessageSize]byte) { b[16] ^= 1 }, hello)}, wire.ReasonStale},
		"two hellos":      {[][]byte{raw(plain, hello), raw(plain, hello)}, wire.ReasonProtocol},
		"noise later":     {[][]byte{raw(plain, hello), make([]byte, wire.MessageSize)}, wire.ReasonProtocol},
		"a handle twice":  {[][]byte{raw(plain, hello), raw(plain, attach), raw(plain, attach)}, wire.ReasonProtocol},
		"a region twice": {[][]byte{raw(plain, hello), raw(plain, attach),
			raw(func(b *[wire.MessageSize]byte) { b[8] = 9 }, attach)}, wire.ReasonProtocol},
		"detached what it never had": {[][]byte{raw(plain, hello), raw(plain, wire.Message{Type: wire.MsgDetached, Handle: 3})}, wire.ReasonProtocol},
		"plays the server":           {[][]byte{raw(plain, hello), raw(plain, wire.Message{Type: wire.MsgRevoke, Handle: 1})}, wire.ReasonProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			peer := connect(t, r.server)
			for _, b := range c.say {
				if _, err := peer.Write(b); err != nil {
					break // Sent away already.
				}
			}
			require.Equal(t, c.want, until(t, peer))
			require.Equal(t, transport.OK, one(t, r.path, transport.Op{Kind: transport.Read, Local: make([]byte, 100), Remote: r.id}).Status)
		})
	}
}

// TestFlood: a peer that asks and never reads fills its socket, is sent away within bounds,
// and delays no other. What it was given stays its own until it is gone.
func TestFlood(t *testing.T) {
	r := newPair(t, 1<<20, func(c *Config) { c.RevokeTimeout = plugin.Duration(time.Minute) })
	k, err := wire.DecodeKey(r.key)
	require.NoError(t, err)
	peer := greet(t, r.server)
	require.NoError(t, peer.Send(wire.Message{Type: wire.MsgAttach, Handle: 1, Number: k.Region, Token: k.Token}, -1))
	require.Eventually(t, func() bool { return r.server.Stats().Grants == 1 }, time.Minute, time.Millisecond)
	// It ends with the socket full, or, where that was missed, long after it was sent away.
	for i := uint64(2); err == nil && i < 5000; i++ {
		err = peer.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		require.NoError(t, err)
		var b [wire.MessageSize]byte
		m := wire.Message{Type: wire.MsgAttach, Handle: i, Number: 99}
		m.Put(&b)
		_, err = peer.Write(b[:])
	}
	require.Equal(t, transport.OK, one(t, r.path, transport.Op{Kind: transport.Read, Local: make([]byte, 100), Remote: r.id}).Status)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, r.server.Deregister(ctx, 1), "must not be reused yet")
	require.NoError(t, peer.Close())
	require.NoError(t, r.server.Deregister(t.Context(), 1))
}

// TestMisbehavingHolderKeepsTheRegion: sending a peer away does not unmap what it has.
func TestMisbehavingHolderKeepsTheRegion(t *testing.T) {
	r := newPair(t, 1<<20)
	k, err := wire.DecodeKey(r.key)
	require.NoError(t, err)
	peer := greet(t, r.server)
	require.NoError(t, peer.Send(wire.Message{Type: wire.MsgAttach, Handle: 1, Number: k.Region, Token: k.Token}, -1))
	m, fd, err := peer.Receive()
	require.NoError(t, err)
	require.Equal(t, wire.MsgAttached, m.Type)
	wire.CloseFD(fd)
	_, err = peer.Write(make([]byte, wire.MessageSize))
	require.NoError(t, err)
	require.Equal(t, wire.ReasonProtocol, until(t, peer))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, r.server.Deregister(ctx, 1))
	require.NoError(t, peer.Close())
	require.NoError(t, r.server.Deregister(t.Context(), 1))
}

// hostileOwner listens like a transport and answers each attach as give says.
func hostileOwner(t *testing.T, live *node, give func(c wire.Conn, m wire.Message)) transport.Endpoint {
	ln, name, err := listen(context.Background())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			for err == nil {
				var m wire.Message
				if m, _, err = (wire.Conn{UnixConn: c}).Receive(); m.Type == wire.MsgHello {
					_ = wire.Conn{UnixConn: c}.Send(wire.Message{Type: wire.MsgWelcome, Number: m.Number}, -1)
				} else if err == nil && m.Type == wire.MsgAttach {
					give(wire.Conn{UnixConn: c}, m)
				}
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	e := live.self
	e.Socket = name
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

// TestHostileOwners: what could end this process with SIGBUS is not mapped; operations fail
// and other transports take over. Nothing stays mapped or open.
func TestHostileOwners(t *testing.T) {
	const size = 1 << 20
	live := fresh(t)
	small, smallFD := sealed(t, 4096)
	_, loose := memfd(t, size, 0)
	_, good := sealed(t, size)
	file, err := os.Create(t.TempDir() + "/plain")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(size))
	pipe, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer pipe.Close()
	require.Len(t, small, 4096)
	key := wire.Key{Incarnation: live.self.Incarnation, Region: 1, Length: size, Access: transport.AccessRemote}
	attached := wire.Message{Type: wire.MsgAttached, Length: size, Access: transport.AccessRemote}
	for name, c := range map[string]struct {
		fd     int
		change func(*wire.Message)
	}{
		"shorter than announced": {smallFD, func(*wire.Message) {}},
		"can shrink":             {loose, func(*wire.Message) {}},
		"a plain file":           {int(file.Fd()), func(*wire.Message) {}},
		"no memory at all":       {int(pipe.Fd()), func(*wire.Message) {}},
		"no descriptor":          {-1, func(*wire.Message) {}},
		"offset past the end":    {good, func(m *wire.Message) { m.Number = 4096 }},
		"offset and length wrap": {good, func(m *wire.Message) { m.Number = 1<<64 - 4096 }},
		"another length":         {good, func(m *wire.Message) { m.Length = size / 2 }},
		"other rights":           {good, func(m *wire.Message) { m.Access = transport.AccessRemoteRead }},
		"an unsolicited handle":  {good, func(m *wire.Message) { m.Handle = 77 }},
		"no answer but nonsense": {good, func(m *wire.Message) { m.Type = wire.MsgHello }},
	} {
		t.Run(name, func(t *testing.T) {
			client := fresh(t)
			_, maps := resources(t)
			ep := hostileOwner(t, live, func(o wire.Conn, m wire.Message) {
				a := attached
				a.Handle = m.Handle
				c.change(&a)
				_ = o.Send(a, c.fd)
			})
			p, id := dialTo(t, client, ep, key.Encode())
			got := one(t, p, transport.Op{Kind: transport.Read, Local: make([]byte, 4096), Remote: id})
			require.Equal(t, transport.Failed, got.Status)
			require.NotEqual(t, errs.ClassUnknown, got.Class())
			if c.fd == good && strings.HasPrefix(name, "offset") {
				require.ErrorContains(t, got.Err, "announced", "it is not left to the kernel")
			}
			require.NoError(t, p.Close(t.Context()))
			require.Zero(t, client.stats.mappings.Load())
			_, after := resources(t)
			require.Equal(t, maps, after)
		})
	}
}

// TestManyDescriptors: unsolicited descriptors are closed.
func TestManyDescriptors(t *testing.T) {
	n := fresh(t)
	_, fd := sealed(t, 4096)
	c := greet(t, n)
	before, _ := resources(t)
	var b [wire.MessageSize]byte
	m := wire.Message{Type: wire.MsgAttach, Handle: 1, Number: 1}
	m.Put(&b)
	_, _, err := c.WriteMsgUnix(b[:], unix.UnixRights(fd, fd, fd, fd, fd, fd), nil)
	require.NoError(t, err)
	require.Equal(t, wire.ReasonProtocol, until(t, c))
	after, _ := resources(t)
	require.Equal(t, before, after)
}

// TestConnectionsAreBounded: too many are told so.
func TestConnectionsAreBounded(t *testing.T) {
	n := fresh(t, func(c *Config) { c.MaxConnections, c.HandshakeTimeout = 1, plugin.Duration(time.Hour) })
	first := connect(t, n)
	require.Eventually(t, func() bool { return n.stats.connsIn.Load() == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, wire.ReasonBusy, until(t, connect(t, n)))
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return n.stats.connsIn.Load() == 0 }, time.Minute, time.Millisecond)
	greet(t, n)
}

// TestSilentPeerGivesItsPlaceUp: one that does not say hello is sent away in time.
func TestSilentPeerGivesItsPlaceUp(t *testing.T) {
	n := fresh(t, func(c *Config) { c.MaxConnections, c.HandshakeTimeout = 1, plugin.Duration(100*time.Millisecond) })
	require.Equal(t, wire.ReasonProtocol, until(t, connect(t, n)))
	require.Eventually(t, func() bool { return n.stats.connsIn.Load() == 0 }, time.Minute, time.Millisecond)
}
