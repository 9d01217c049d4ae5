package httpd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
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
	_, err = http.Get("http://" + ln.Addr().String())
	assert.Error(t, err)
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

func TestConnectionLimit(t *testing.T) {
	s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }), httpd.Options{MaxConnections: 1})
	ln := listen(t)
	s.Start(ln)
	defer func() { require.NoError(t, s.Stop(t.Context())) }()
	first, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	io.WriteString(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, err = first.Read(make([]byte, 1))
	require.NoError(t, err)

	second, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer second.Close()
	io.WriteString(second, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	second.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err = second.Read(make([]byte, 1))
	require.Error(t, err, "the second connection waits")
	first.Close()
	second.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = second.Read(make([]byte, 1))
	assert.NoError(t, err)
}

func TestGarbageDisturbsNobody(t *testing.T) {
	s := httpd.New(http.NotFoundHandler(), httpd.Options{ReadHeaderTimeout: 50 * time.Millisecond, MaxHeaderBytes: 4 << 10})
	ln := listen(t)
	s.Start(ln)
	defer func() { require.NoError(t, s.Stop(t.Context())) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, payload := range []string{"", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /", "\x00\xff\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 64<<10)} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		_, _ = io.WriteString(conn, payload) // The server may have closed already.
		resp, err := client.Get("http://" + ln.Addr().String())
		require.NoError(t, err)
		resp.Body.Close()
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = io.Copy(io.Discard, conn)
		assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%.20q", payload)
		conn.Close()
	}
}
