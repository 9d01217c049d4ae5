package httpd_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/httpd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// canceled is a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestServesAndStops(t *testing.T) {
	s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }), httpd.Options{})
	require.NoError(t, s.Stop(t.Context()), "before Start")

	s = httpd.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }), httpd.Options{})
	ln := listen(t)
	s.Start(ln)
	resp, err := http.Get("http://" + ln.Addr().String())
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, "yes", string(b))
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()))
	// Another process may have the port by now.
	_, err = ln.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)
}

func TestStopCutsOffASlowAnswer(t *testing.T) {
	entered := make(chan struct{})
	s := httpd.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(entered); <-r.Context().Done() }), httpd.Options{})
	ln := listen(t)
	s.Start(ln)
	failed := make(chan error, 1)
	go func() { _, err := http.Get("http://" + ln.Addr().String()); failed <- err }()
	<-entered
	require.NoError(t, s.Stop(canceled(t)))
	assert.Error(t, <-failed)
}

// pipes is a listener whose connections are pipes, which work with the clock of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// dial returns when the server has taken the connection.
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestConnectionLimit: a further connection waits until another one has been idle for patience.
func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }), httpd.Options{MaxConnections: 1})
		ln := newPipes()
		s.Start(ln)
		first, err := ln.dial(t.Context())
		require.NoError(t, err)
		answered := make(chan error, 1)
		ask := func(c net.Conn) { // A pipe has no buffer, so the test has to read the whole answer.
			go func() { io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
			go func() {
				_, err := c.Read(make([]byte, 1))
				answered <- err
				_, _ = io.Copy(io.Discard, c)
			}()
		}
		ask(first)
		require.NoError(t, <-answered)

		second, err := ln.dial(t.Context())
		require.NoError(t, err)
		ask(second)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, answered, "the second connection waits")
		start := time.Now()
		first.Close()
		require.NoError(t, <-answered)
		require.Zero(t, time.Since(start), "it gets the slot of the first at once")
		second.Close()
		require.NoError(t, s.Stop(t.Context()))
	})
}

// TestGarbageDoesNotDisturbOthers: the connection that sends it is cut off, and other clients get
// answers meanwhile.
func TestGarbageDoesNotDisturbOthers(t *testing.T) {
	for name, payload := range map[string]string{
		"nothing": "", "TLS": "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "half a line": "GET /", "zeros": "\x00\xff\r\n\r\n",
		"a long head": "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := httpd.New(http.NotFoundHandler(), httpd.Options{ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 4 << 10})
				ln := newPipes()
				s.Start(ln)
				conn, err := ln.dial(t.Context())
				require.NoError(t, err)
				go func() { _, _ = io.WriteString(conn, payload) }() // The server may have closed already.
				ended := make(chan struct{})
				start := time.Now()
				go func() { _, _ = io.Copy(io.Discard, conn); close(ended) }()
				client := &http.Client{Transport: &http.Transport{
					DisableKeepAlives: true,
					DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.dial(ctx) },
				}}
				resp, err := client.Get("http://pipes/")
				require.NoError(t, err)
				resp.Body.Close()
				require.Zero(t, time.Since(start))
				<-ended
				require.LessOrEqual(t, time.Since(start), 6*time.Second)
				conn.Close()
				require.NoError(t, s.Stop(t.Context()))
			})
		})
	}
}

// TestOtherProtocolsAreNamed: the connection of a client that does not speak HTTP is closed after its
// first bytes, and the log names the protocol.
func TestOtherProtocolsAreNamed(t *testing.T) {
	for name, payload := range map[string]string{
		"(coro_rpc)":         "\x15\x00\x00\x00\x00\x00\x00\x00\x56\xbb\x81\x7b\x00\x00\x00\x00\x00\x00\x00\x00",
		"a Mooncake master":  "MCL1\x00\x00\x00\x00",
		"use http://, not h": "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1",
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := httpd.New(http.NotFoundHandler(), httpd.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ln := newPipes()
			s.Start(ln)
			conn, err := ln.dial(t.Context())
			require.NoError(t, err)
			_, err = io.WriteString(conn, payload)
			require.NoError(t, err)
			start := time.Now()
			_, err = io.Copy(io.Discard, conn)
			require.NoError(t, err)
			require.Zero(t, time.Since(start), "it is closed without waiting for a timeout")
			require.NoError(t, s.Stop(t.Context()))
			require.Contains(t, log.String(), name)
			require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
		})
	}
}
