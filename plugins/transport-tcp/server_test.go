package tcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// rawConn connects to the server without any of the client's code.
func (r *pair) rawConn(t testing.TB) net.Conn {
	e, err := frame.DecodeEndpoint(r.server.Endpoint().Blob)
	require.NoError(t, err)
	c, err := net.Dial("tcp", e.Addrs[0])
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// greeted is a raw connection after the hello.
func (r *pair) greeted(t testing.TB) net.Conn {
	c := r.rawConn(t)
	_, err := c.Write(helloOf(r.server.incarnation))
	require.NoError(t, err)
	b := make([]byte, frame.Size)
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	var h frame.Hello
	require.NoError(t, h.Decode(b))
	require.Equal(t, frame.ReasonNone, h.Reason)
	return c
}

func answerOf(t testing.TB, c net.Conn) frame.Header {
	b := make([]byte, frame.Size)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	var h frame.Header
	require.NoError(t, h.Decode(b))
	return h
}

func closedByPeer(t testing.TB, c net.Conn) {
	n, err := io.Copy(io.Discard, c)
	require.Zero(t, n, "nothing more is said")
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server left the connection open")
}

// TestStrangers: other protocols on the port are closed at once and counted.
func TestStrangers(t *testing.T) {
	r := newPair(t, 4096)
	for i, first := range []string{
		"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"SSH-2.0-OpenSSH_9.6\r\n",
		"\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", // Opcode 2.
	} {
		c := r.rawConn(t)
		_, err := c.Write([]byte(first))
		require.NoError(t, err)
		closedByPeer(t, c)
		require.EqualValues(t, i+1, r.server.Stats().Foreign)
	}
	r.ok(t, r.read(make([]byte, 4096)))
}

// TestSlowGreeting: a connection that says nothing, or half a hello, costs handshake_timeout.
func TestSlowGreeting(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.HandshakeTimeout = ms(30) })
	for _, part := range []int{0, 5, 40} {
		c := r.rawConn(t)
		_, err := c.Write(helloOf(1)[:part])
		require.NoError(t, err)
		closedByPeer(t, c)
	}
	r.works(t, make([]byte, 4096)) // Its own hello may be late too.
}

func TestHelloRefusals(t *testing.T) {
	r := newPair(t, 4096, func(c *Config) { c.MaxConnectionsPerPeer = 1 })
	say := func(change func(*frame.Hello)) frame.Reason {
		h := frame.Hello{Low: 1, High: 1, Incarnation: r.server.incarnation, MaxFrame: frame.MaxSlice}
		change(&h)
		b := make([]byte, frame.Size)
		h.Put(b)
		c := r.rawConn(t)
		_, err := c.Write(b)
		require.NoError(t, err)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		require.NoError(t, h.Decode(b))
		return h.Reason
	}
	require.Equal(t, frame.ReasonStale, say(func(h *frame.Hello) { h.Incarnation++ }))
	require.Equal(t, frame.ReasonVersion, say(func(h *frame.Hello) { h.Low, h.High = 2, 9 }))
	require.Equal(t, frame.ReasonNone, say(func(h *frame.Hello) { h.Session[0] = 1 }))
	require.Equal(t, frame.ReasonBusy, say(func(h *frame.Hello) { h.Session[0] = 1 }))
	require.Equal(t, frame.ReasonNone, say(func(h *frame.Hello) { h.Session[0] = 2 }))
	require.Equal(t, map[string]uint64{"stale": 1, "version": 1, "busy": 1}, r.server.Stats().Refused)
}

// TestRequestsRefused goes past the client's own checks: the server decides.
func TestRequestsRefused(t *testing.T) {
	r := newPair(t, 1000)
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	secret := make([]byte, 100)
	_, err = r.server.Register(context.Background(), transport.Region{ID: 2, Mem: secret, FD: -1})
	require.NoError(t, err)
	c := r.greeted(t)
	for i, x := range []struct {
		why    frame.Reason
		change func(*frame.Header)
	}{
		{frame.ReasonUnknownRegion, func(h *frame.Header) { h.Region = 99 }},
		{frame.ReasonWrongToken, func(h *frame.Header) { h.Token[15] ^= 1 }},
		{frame.ReasonWrongToken, func(h *frame.Header) { h.Region = 2 }},
		{frame.ReasonRange, func(h *frame.Header) { h.Offset = 991 }},
		{frame.ReasonRange, func(h *frame.Header) { h.Offset = 1 << 63 }},
		{frame.ReasonRange, func(h *frame.Header) { h.Offset = ^uint64(0) - 5 }},
		{frame.ReasonReadDenied, func(h *frame.Header) { h.Region, h.Token = 2, r.server.regions.Get(2).Token() }},
	} {
		for _, kind := range []frame.Type{frame.Read, frame.Write} {
			h := frame.Header{Type: kind, ID: uint64(i), Region: k.Region, Token: k.Token, Length: 10}
			x.change(&h)
			msg := encoded(h)
			want := x.why
			if kind == frame.Write {
				msg = append(msg, make([]byte, 10)...)
				if want == frame.ReasonReadDenied {
					want = frame.ReasonWriteDenied
				}
			}
			_, err := c.Write(msg)
			require.NoError(t, err)
			got := answerOf(t, c)
			require.Equal(t, frame.Error, got.Type)
			require.Equal(t, want, got.Reason)
			require.Equal(t, h.ID, got.ID)
			require.Equal(t, want.Info().Code, got.Code)
			require.Equal(t, want.Info().Class, got.Class)
		}
	}
	// The connection survived all of it.
	_, err = c.Write(encoded(frame.Header{Type: frame.Read, ID: 50, Region: k.Region, Token: k.Token, Length: 10}))
	require.NoError(t, err)
	require.Equal(t, frame.Data, answerOf(t, c).Type)
}

// TestFramingLost: the server says why, and closes.
func TestFramingLost(t *testing.T) {
	r := newPair(t, 1000)
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	for name, x := range map[string]struct {
		msg []byte
		why frame.Reason
	}{
		"garbage":       {make([]byte, frame.Size), frame.ReasonBadFrame},
		"no request":    {encoded(frame.Header{Type: frame.Done}), frame.ReasonBadFrame},
		"broken batch":  {append(encoded(frame.Header{Type: frame.Read, Follow: 1}), encoded(frame.Header{Type: frame.Read, Follow: 1})...), frame.ReasonBadFrame},
		"too long":      {encoded(frame.Header{Type: frame.Write, Region: k.Region, Token: k.Token, Length: frame.MaxSlice + 1}), frame.ReasonTooLong},
		"read too long": {encoded(frame.Header{Type: frame.Read, Region: k.Region, Token: k.Token, Length: 1 << 31}), frame.ReasonTooLong},
	} {
		c := r.greeted(t)
		_, err := c.Write(x.msg)
		require.NoError(t, err, name)
		h := answerOf(t, c)
		require.Equal(t, frame.GoAway, h.Type, name)
		require.Equal(t, x.why, h.Reason, name)
		closedByPeer(t, c)
	}
	r.ok(t, r.read(make([]byte, 1000)))
}

// TestDeafPeer asks for much and reads nothing: it stalls itself and is cut off, others
// are served meanwhile, and the region can be withdrawn.
func TestDeafPeer(t *testing.T) {
	r := newPair(t, 8<<20, func(c *Config) { c.StallTimeout = ms(200) })
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	c := r.greeted(t)
	var much []byte
	for i := range 20 {
		much = append(much, encoded(frame.Header{Type: frame.Read, ID: uint64(i), Region: k.Region, Token: k.Token, Length: 8 << 20})...)
	}
	_, err = c.Write(much) // At once: the server may have given up between two.
	require.NoError(t, err)
	until(t, "the server is stuck in an answer", func() bool { return r.server.Stats().ServedReads > 0 })
	r.works(t, make([]byte, 1<<20))
	until(t, "the server gave up on it", func() bool { return r.server.Stats().ConnectionsIn == 1 })
	require.Less(t, r.server.Stats().ServedReads, uint64(20), "requests were not queued up")
}

// held waits until a request of a peer is at work on the region.
func (r *pair) held(t testing.TB) {
	region := r.server.regions.Get(1)
	until(t, "a request holds the region", func() bool { return region.Held() > 0 })
}

// let waits until no request holds the first region: a peer has its answer before the server lets go.
func (r *pair) let(t testing.TB) {
	region := r.server.regions.Get(1)
	until(t, "no request holds the region", func() bool { return region.Held() == 0 })
}

// TestDeregisterCutsStalledPeer: a peer in the middle of a Write that never comes does
// not hold the region for longer than the grace.
func TestDeregisterCutsStalledPeer(t *testing.T) {
	r := newPair(t, 4096)
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	c := r.greeted(t)
	half := append(encoded(frame.Header{Type: frame.Write, Region: k.Region, Token: k.Token, Length: 4096}), make([]byte, 100)...)
	_, err = c.Write(half)
	require.NoError(t, err)
	r.held(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err = r.server.Deregister(ended, 1)
	require.True(t, err == nil || errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.server.Register(context.Background(), transport.Region{ID: 1, Mem: make([]byte, 1), FD: -1})
		require.Error(t, err, "the ID is not free yet")
		require.NoError(t, r.server.Deregister(context.Background(), 1))
	}
	closedByPeer(t, c)
	require.Nil(t, r.server.regions.Get(1))
}

// TestDeregisterGrace does the same without an ended context, and takes the second of grace:
// a peer that was cut off for its silence would hold nothing any more.
func TestDeregisterGrace(t *testing.T) {
	r := newPair(t, 4096)
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	c := r.greeted(t)
	_, err = c.Write(encoded(frame.Header{Type: frame.Write, Region: k.Region, Token: k.Token, Length: 4096}))
	require.NoError(t, err)
	r.held(t)
	require.NoError(t, r.server.Deregister(context.Background(), 1))
}

// TestStopSaysGoodbye: an idle peer is told that the server stops.
func TestStopSaysGoodbye(t *testing.T) {
	r := newPair(t, 4096, single)
	r.server.stopLinger = limit
	c := r.greeted(t)
	done := make(chan error)
	go func() { done <- r.server.Stop(context.Background()) }()
	h := answerOf(t, c)
	require.Equal(t, frame.GoAway, h.Type)
	require.Equal(t, frame.ReasonStopping, h.Reason)
	_, err := c.Write(make([]byte, 4<<20)) // It was on the way.
	require.NoError(t, err, "a reset could destroy what the server said")
	_ = c.Close()
	require.NoError(t, <-done)
}

// TestStopWithStuckPeer: Stop returns although a peer never finishes its request.
func TestStopWithStuckPeer(t *testing.T) {
	r := newPair(t, 4096)
	k, err := frame.DecodeKey(r.key)
	require.NoError(t, err)
	c := r.greeted(t)
	_, err = c.Write(encoded(frame.Header{Type: frame.Write, Region: k.Region, Token: k.Token, Length: 4096}))
	require.NoError(t, err)
	r.held(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, r.server.Stop(ctx))
	require.Zero(t, r.server.Stats().ConnectionsIn)
}

// TestDescriptors: connections that come and go leave no descriptor behind.
func TestDescriptors(t *testing.T) {
	open := func() int {
		l, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc")
		}
		return len(l)
	}
	cycle := func(i int) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newPair(t, 4096)
			r.ok(t, r.read(make([]byte, 4096)))
			_, _ = r.rawConn(t).Write([]byte("hello?"))
			require.NoError(t, r.server.Stop(context.Background()))
		})
	}
	cycle(0)
	before := open()
	for i := range 20 {
		cycle(1 + i)
	}
	until(t, "descriptors are closed", func() bool { return open() <= before+1 })
}
