package zmtp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/kvevents/eventstest"
	"github.com/mooncake-go/mooncake/core/master/kvevents/zmtp"
)

// numbered is a message that carries its number and size more bytes.
func numbered(i, size int) []byte {
	m := zmtp.AppendFrame(nil, nil, true)
	return zmtp.AppendFrame(m, append(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, size)...), false)
}

// number reads the next message.
func number(t *testing.T, s *eventstest.Subscriber) int {
	t.Helper()
	flags, topic, err := s.Frame()
	require.NoError(t, err)
	require.Equal(t, byte(1), flags)
	require.Empty(t, topic)
	flags, body, err := s.Frame()
	require.NoError(t, err)
	require.Zero(t, flags)
	return int(binary.BigEndian.Uint64(body))
}

func newPub(t *testing.T, opts zmtp.Options) *zmtp.Pub {
	p := zmtp.New(opts)
	t.Cleanup(func() { p.Close(ended()) })
	return p
}

// ended is a context without time left.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// joined is a subscriber on a pipe, which holds nothing: what is not read is not written.
func joined(t *testing.T, p *zmtp.Pub) *eventstest.Subscriber {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	p.Handle(ours)
	s, err := eventstest.New(theirs, time.Now().Add(time.Hour))
	require.NoError(t, err)
	return s
}

func subscribed(t *testing.T, p *zmtp.Pub) *eventstest.Subscriber {
	t.Helper()
	s := joined(t, p)
	require.NoError(t, s.Subscribe(""))
	require.NoError(t, s.Ping())
	return s
}

func TestSubscriptions(t *testing.T) {
	for name, c := range map[string]struct {
		send []byte
		on   bool
	}{
		"3.1":                {eventstest.Command("SUBSCRIBE", ""), true},
		"3.0":                {[]byte{0, 1, 1}, true},
		"taken back":         {append(eventstest.Command("SUBSCRIBE", ""), eventstest.Command("CANCEL", "")...), false},
		"taken back, 3.0":    {[]byte{0, 1, 1, 0, 1, 0}, false},
		"and again":          {[]byte{0, 1, 1, 0, 1, 0, 0, 1, 1}, true},
		"another topic":      {eventstest.Command("SUBSCRIBE", "kv"), false},
		"another topic, 3.0": {[]byte{0, 2, 1, 'k'}, false},
		"cancels another":    {append(eventstest.Command("SUBSCRIBE", ""), eventstest.Command("CANCEL", "x")...), true},
		"no subscription":    {[]byte{0, 1, 2, 0, 0, 1, 1, 1, 0, 0}, false},
		"an unknown command": {eventstest.Command("SING", ""), false},
		"twice is once":      {append(eventstest.Command("SUBSCRIBE", ""), 0, 1, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPub(t, zmtp.Options{})
			s := joined(t, p)
			p.Publish(numbered(1, 0)) // before any peer subscribed
			require.NoError(t, s.Write(c.send))
			require.NoError(t, s.Ping())
			p.Publish(numbered(2, 0))
			if c.on {
				require.Equal(t, 2, number(t, s))
			} else {
				require.NoError(t, s.Subscribe(""))
				require.NoError(t, s.Ping())
				p.Publish(numbered(3, 0))
				require.Equal(t, 3, number(t, s), "nothing came before it subscribed")
			}
			require.Equal(t, 1, p.Subscribers())
		})
	}
}

// One subscriber that does not read costs the others nothing and the publisher no memory,
// and when it reads again it gets the newest that are kept.
func TestSlowSubscriber(t *testing.T) {
	const kept, total = 100, 5000
	p := newPub(t, zmtp.Options{Messages: kept})
	slow, quick := subscribed(t, p), subscribed(t, p)
	for i := range total {
		p.Publish(numbered(i, 0))
		require.Equal(t, i, number(t, quick))
	}
	var got []int
	for len(got) == 0 || got[len(got)-1] != total-1 {
		got = append(got, number(t, slow))
	}
	// What it was being written when it stopped, and then the end of the log.
	require.LessOrEqual(t, len(got), 64+kept)
	require.Contains(t, got, total-kept)
	require.IsIncreasing(t, got)
	require.Equal(t, uint64(total-len(got)), p.Missed())
}

func TestLogIsBoundedInBytes(t *testing.T) {
	p := newPub(t, zmtp.Options{Bytes: 100 << 10})
	s := subscribed(t, p)
	for i := range 1000 {
		p.Publish(numbered(i, 10<<10))
	}
	got := []int{}
	for len(got) == 0 || got[len(got)-1] != 999 {
		got = append(got, number(t, s))
	}
	require.LessOrEqual(t, len(got), 64+9)
}

// A subscriber that stops reading for good is cut off, and a peer that never introduces
// itself as well.
func TestDeadPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := zmtp.New(zmtp.Options{Handshake: 5 * time.Second, Stall: 30 * time.Second})
		defer p.Close(ended())
		ours, silent := net.Pipe()
		p.Handle(ours)
		slow := subscribed(t, p)
		p.Publish(numbered(1, 0))
		time.Sleep(6 * time.Second)
		_, err := io.ReadAll(silent) // what it was told before
		require.NoError(t, err)
		require.Equal(t, 1, p.Subscribers())
		time.Sleep(25 * time.Second)
		synctest.Wait()
		require.Zero(t, p.Subscribers())
		_, _, err = slow.Frame()
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestTooManySubscribers(t *testing.T) {
	p := newPub(t, zmtp.Options{Subscribers: 2})
	a, b := subscribed(t, p), subscribed(t, p)
	ours, theirs := net.Pipe()
	p.Handle(ours)
	_, err := theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	p.Publish(numbered(1, 0))
	require.Equal(t, 1, number(t, a))
	require.Equal(t, 1, number(t, b))
}

// Peers that speak something else are cut off; the others do not notice.
func TestStrangers(t *testing.T) {
	p := newPub(t, zmtp.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.Serve(ln)
	deadline := time.Now().Add(time.Minute)
	s, err := eventstest.Dial("tcp", ln.Addr().String(), deadline)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Ping())
	long := append([]byte{2, 0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 100)...)
	for _, text := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), eventstest.Greeting("CURVE", 3), eventstest.Greeting("NULL", 2), bytes.Repeat([]byte{0xff}, 200),
		append(eventstest.Greeting("NULL", 3), eventstest.Command("READY", "\x0bSocket-Type\x00\x00\x00\x03REQ")...),
		append(eventstest.Greeting("NULL", 3), long...),
	} {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(deadline))
		_, err = c.Write(text)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, c)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%q was not cut off", text)
		c.Close()
	}
	p.Publish(numbered(1, 0))
	require.Equal(t, 1, number(t, s))
}

func TestCloseLetsSubscribersTakeWhatIsThere(t *testing.T) {
	p := zmtp.New(zmtp.Options{})
	s, idle := subscribed(t, p), joined(t, p)
	for i := range 300 {
		p.Publish(numbered(i, 0))
	}
	closed := make(chan struct{})
	go func() { p.Close(context.Background()); close(closed) }()
	for i := range 300 {
		require.Equal(t, i, number(t, s))
	}
	_, _, err := s.Frame()
	require.ErrorIs(t, err, io.EOF)
	_, _, err = idle.Frame()
	require.ErrorIs(t, err, io.EOF)
	<-closed
	ours, theirs := net.Pipe()
	p.Handle(ours)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "no subscriber joins after the end")
}

// A subscriber that does not read cannot hold up the end.
func TestCloseEndsInTime(t *testing.T) {
	p := zmtp.New(zmtp.Options{})
	subscribed(t, p)
	p.Publish(numbered(1, 0))
	p.Close(ended())
	require.Zero(t, p.Subscribers())
}

func TestPingIsAnsweredWhileMessagesCome(t *testing.T) {
	p := newPub(t, zmtp.Options{})
	s := subscribed(t, p)
	p.Publish(numbered(1, 0))
	require.Equal(t, 1, number(t, s))
	require.NoError(t, s.Write(eventstest.Command("PING", "\x00\x0a"+strings.Repeat("c", 16))))
	flags, body, err := s.Frame()
	require.NoError(t, err)
	require.Equal(t, byte(4), flags)
	require.Equal(t, "\x04PONG"+strings.Repeat("c", 16), string(body))
	require.NoError(t, s.Write(eventstest.Command("PING", "\x00"))) // malformed: no answer, no harm
	require.NoError(t, s.Ping())
}
