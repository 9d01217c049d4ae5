package p2p_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded returns the two metadata frames of a recorded exchange, as they went over the
// wire.
func recorded(t testing.TB) [][]byte {
	raw, err := os.ReadFile("testdata/handshake.txt")
	require.NoError(t, err)
	var out [][]byte
	for _, m := range regexp.MustCompile(`(?m)^hex ([0-9a-f]{18})\njson (.*)$`).FindAllSubmatch(raw, -1) {
		head, err := hex.DecodeString(string(m[1]))
		require.NoError(t, err)
		out = append(out, append(append(head, m[2]...), '\n'))
	}
	require.Len(t, out, 2)
	return out
}

func TestRecordedFrames(t *testing.T) {
	for _, raw := range recorded(t) {
		f, err := p2p.ReadFrame(bytes.NewReader(raw), p2p.DefaultMaxLength)
		require.NoError(t, err)
		assert.Equal(t, p2p.TypeMetadata, f.Type)
		d, err := metadata.DecodeDescriptor(f.JSON)
		require.NoError(t, err)
		f.JSON, err = metadata.EncodeDescriptor(d)
		require.NoError(t, err)
		f.JSON = append(f.JSON, '\n')
		var back bytes.Buffer
		require.NoError(t, p2p.WriteFrame(&back, f))
		assert.Equal(t, string(raw), back.String())
	}
}

func listen(t testing.TB, opts p2p.DaemonOptions) (*p2p.Daemon, metadata.Address) {
	t.Helper()
	opts.BindHost = "127.0.0.1"
	d, err := p2p.Listen(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Stop(context.Background())) })
	return d, metadata.Address{Host: "127.0.0.1", Port: d.Port()}
}

// TestRecordedExchange plays the recorded initiator against a daemon that publishes the
// recorded descriptor: it must answer byte for byte, then close its side.
func TestRecordedExchange(t *testing.T) {
	frames := recorded(t)
	d, a := listen(t, p2p.DaemonOptions{LingerTimeout: time.Minute})
	d.SetDescriptor(bytes.TrimSpace(frames[1][9:]))
	conn, err := net.Dial("tcp", a.String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = conn.Write(frames[0])
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, string(frames[1]), string(answer))
}

func TestRandomPortIsInTheRange(t *testing.T) {
	for range 20 {
		_, a := listen(t, p2p.DaemonOptions{})
		assert.GreaterOrEqual(t, a.Port, p2p.MinPort)
		assert.LessOrEqual(t, a.Port, p2p.MaxPort)
	}
	_, a := listen(t, p2p.DaemonOptions{})
	_, err := p2p.Listen(t.Context(), p2p.DaemonOptions{BindHost: "127.0.0.1", Port: a.Port})
	assert.ErrorContains(t, err, "pick another port")
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestNotify(t *testing.T) {
	d, a := listen(t, p2p.DaemonOptions{})
	n := metadata.Notification{Name: "n", Message: "done"}
	err := p2p.Dialer{}.Notify(t.Context(), a, n)
	assert.ErrorContains(t, err, "rejected")
	assert.Equal(t, errs.ClassPermanent, errs.ClassOf(err))

	var got metadata.Notification
	d.SetNotifyHandler(func(_ context.Context, n metadata.Notification) error { got = n; return nil })
	require.NoError(t, p2p.Dialer{}.Notify(t.Context(), a, n))
	assert.Equal(t, n, got)
	d.SetNotifyHandler(func(context.Context, metadata.Notification) error { return errors.New("no") })
	assert.Error(t, p2p.Dialer{}.Notify(t.Context(), a, n))
	d.SetNotifyHandler(func(context.Context, metadata.Notification) error { panic("boom") })
	assert.Error(t, p2p.Dialer{}.Notify(t.Context(), a, n))
}

func TestConnection(t *testing.T) {
	d, a := listen(t, p2p.DaemonOptions{})
	ask := func() string {
		reply, err := p2p.Dialer{}.Exchange(t.Context(), a, p2p.TypeConnection, []byte(`{"q":1}`))
		require.NoError(t, err)
		return string(reply)
	}
	assert.Equal(t, "null", ask())
	d.SetConnectionHandler(func(_ context.Context, q []byte) ([]byte, error) {
		return append([]byte("[1,"), append(q, ']')...), nil
	})
	assert.Equal(t, `[1,{"q":1}]`, ask())

	// The form without a type, and its answer.
	conn, err := net.Dial("tcp", a.String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, p2p.WriteFrame(conn, p2p.Frame{Untyped: true, JSON: []byte(`{}`)}))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "\x07\x00\x00\x00\x00\x00\x00\x00[1,{}]\n", string(answer))

	d.SetConnectionHandler(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no") })
	assert.Equal(t, "null", ask())
	d.SetConnectionHandler(func(context.Context, []byte) ([]byte, error) { return []byte("{"), nil })
	assert.Equal(t, "null", ask())
}

func TestGarbageDisturbsNobody(t *testing.T) {
	_, a := listen(t, p2p.DaemonOptions{ReadTimeout: 3 * time.Second}) // The probes have to make it as well.
	var strangers sync.WaitGroup
	for name, payload := range map[string]string{
		"http":         "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"tls":          "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
		"length 0":     "\x00\x00\x00\x00\x00\x00\x00\x00",
		"just too big": "\x01\x00\x10\x00\x00\x00\x00\x00\x01",
		"cut short":    "\xff\xff\x00\x00\x00\x00\x00\x00\x01{",
		"silent":       "",
	} {
		conn, err := net.Dial("tcp", a.String())
		require.NoError(t, err, name)
		_, _ = io.WriteString(conn, payload) // The daemon may have closed already.
		require.NoError(t, p2p.Dialer{}.Probe(t.Context(), a), name)
		strangers.Go(func() {
			defer conn.Close()
			assert.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
			b, err := io.ReadAll(conn)
			var timeout net.Error
			assert.False(t, errors.As(err, &timeout) && timeout.Timeout(), name)
			assert.Empty(t, b, name)
		})
	}
	strangers.Wait()
	// Garbage that is a frame gets an answer.
	reply, err := p2p.Dialer{}.Exchange(t.Context(), a, p2p.TypeNotify, []byte("nonsense"))
	require.NoError(t, err)
	assert.Equal(t, `{"name":"","notify_msg":""}`, string(reply))
}

func TestConnectionsAreCapped(t *testing.T) {
	d, a := listen(t, p2p.DaemonOptions{MaxConnections: 2})
	var entered sync.WaitGroup
	entered.Add(2)
	release := make(chan struct{})
	d.SetNotifyHandler(func(context.Context, metadata.Notification) error { entered.Done(); <-release; return nil })
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { assert.NoError(t, p2p.Dialer{}.Notify(context.Background(), a, metadata.Notification{})) })
	}
	entered.Wait()
	err := p2p.Dialer{}.Probe(t.Context(), a)
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err), "the third connection is closed")
	close(release)
	done.Wait()
	require.Eventually(t, func() bool { return p2p.Dialer{}.Probe(t.Context(), a) == nil }, 30*time.Second, time.Millisecond)
}

// TestSlowPeersDoNotKeepOthersOut: peers that send nothing give way, the oldest first.
func TestSlowPeersDoNotKeepOthersOut(t *testing.T) {
	_, a := listen(t, p2p.DaemonOptions{MaxConnections: 4, ReadTimeout: time.Hour})
	var silent []net.Conn
	for range 12 {
		conn, err := net.Dial("tcp", a.String())
		require.NoError(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}
	require.NoError(t, p2p.Dialer{}.Probe(t.Context(), a))
	for _, conn := range silent[:9] {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err := conn.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Error(t, err)
	}
}

func TestDialErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := metadata.Address{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port}
	defer ln.Close()
	err = p2p.Dialer{Timeout: 20 * time.Millisecond}.Probe(t.Context(), a)
	assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err), "a daemon that does not answer: %v", err)
	_, a.Port, err = metadata.ParseName(heldport.Address(t))
	require.NoError(t, err)
	err = p2p.Dialer{}.Probe(t.Context(), a)
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	assert.ErrorIs(t, err, syscall.ECONNREFUSED, "the back-off of peers depends on it")
	assert.ErrorContains(t, err, a.String())
}

func open(t *testing.T, name string) *p2p.Directory {
	d, err := p2p.Open(t.Context(), p2p.Options{LocalName: name, Daemon: p2p.DaemonOptions{BindHost: "127.0.0.1"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close(context.Background()))
		require.NoError(t, d.Close(context.Background()))
	})
	return d
}

func TestDirectory(t *testing.T) {
	a, b := open(t, "127.0.0.1"), open(t, "localhost:99")
	ctx := t.Context()
	assert.Regexp(t, `^localhost:1[567]\d\d\d$`, b.LocalName())
	for _, from := range []*p2p.Directory{a, b} {
		_, err := from.Lookup(ctx, b.LocalName())
		assert.ErrorIs(t, err, metadata.ErrNotFound, "nothing is published")
	}
	desc := &metadata.Descriptor{
		Name: b.LocalName(), Protocol: "tcp", TCPProtoVersion: 2, Buffers: []metadata.Buffer{{Name: "x", Addr: 1, Length: 1<<64 - 2}},
		Transports: []metadata.TransportEndpoint{{Name: "tcp", Blob: []byte{0, 255}, Incarnation: 1 << 63}},
	}
	require.NoError(t, b.Publish(ctx, desc))
	for _, from := range []*p2p.Directory{a, b} {
		got, err := from.Lookup(ctx, b.LocalName())
		require.NoError(t, err)
		assert.Equal(t, desc, got)
	}
	require.NoError(t, a.Probe(ctx, b.LocalName()))
	require.Error(t, a.Notify(ctx, b.LocalName(), metadata.Notification{Message: "m"}))
	require.NoError(t, b.Withdraw(ctx))
	_, err := a.Lookup(ctx, b.LocalName())
	assert.ErrorIs(t, err, metadata.ErrNotFound)

	assert.Equal(t, errs.InvalidParams, errs.CodeOf(a.Publish(ctx, desc)), "somebody else's descriptor")
	_, err = a.Lookup(ctx, "not a name")
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	require.NoError(t, b.Close(ctx))
	_, err = a.Lookup(ctx, b.LocalName())
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	assert.NotErrorIs(t, err, metadata.ErrNotFound, "nobody could be asked")
}

func TestDescriptorThatNoPeerTakes(t *testing.T) {
	d := open(t, "127.0.0.1")
	desc := &metadata.Descriptor{Name: d.LocalName(), Protocol: "tcp", Transports: []metadata.TransportEndpoint{{Name: "tcp", Blob: make([]byte, 1<<20)}}}
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(d.Publish(t.Context(), desc)))
}

func FuzzReadFrame(f *testing.F) {
	for _, raw := range recorded(f) {
		f.Add(raw)
	}
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x03"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frame, err := p2p.ReadFrame(bytes.NewReader(raw), p2p.DefaultMaxLength)
		if err != nil {
			return
		}
		var back bytes.Buffer
		require.NoError(t, p2p.WriteFrame(&back, frame))
		require.Equal(t, raw[:back.Len()], back.Bytes())
	})
}
