package foreign

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen serves each connection with do until the test ends. It returns a Dial and the number of
// accepted connections.
func listen(t *testing.T, do func(net.Conn)) (Dial, *atomic.Int32) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	accepted := &atomic.Int32{}
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			serving.Go(func() { defer conn.Close(); do(conn) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return dialTo(ln.Addr().String()), accepted
}

func dialTo(addr string) Dial {
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
}

// within bounds operations that end at once unless something is broken.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestAskUpstream: the server closes every connection that does not begin with coro_rpc, as
// upstream's master does.
func TestAskUpstream(t *testing.T) {
	dial, accepted := listen(t, func(conn net.Conn) {
		head := make([]byte, 20)
		if _, err := io.ReadFull(conn, head); err == nil && head[0] == 0x15 {
			_, _ = conn.Write(bytesOf(t, readyAnswer))
		}
	})
	assert.Equal(t, CoroRPC, Ask(within(t), dial))
	assert.EqualValues(t, 2, accepted.Load())
}

func TestAskOthers(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	assert.Equal(t, HTTP, Ask(within(t), dialTo(web.Listener.Addr().String())))

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	assert.Equal(t, TLS, Ask(within(t), dialTo(secure.Listener.Addr().String())))

	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}
	mutual.StartTLS()
	defer mutual.Close()
	assert.Equal(t, TLS, Ask(within(t), dialTo(mutual.Listener.Addr().String())), "it refuses the handshake with an alert")

	redis, _ := listen(t, func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 64)); err == nil {
			_, _ = io.WriteString(conn, "-ERR unknown command 'PRI', with args beginning with: '*'\r\n")
		}
	})
	assert.Equal(t, Redis, Ask(within(t), redis))

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(ln) })
	assert.Equal(t, HTTP2, Ask(within(t), dialTo(ln.Addr().String())))
	g.Stop()
	serving.Wait()
}

// TestAskWhatSaysNothing: a server that closes every connection is unknown. A server that keeps the
// connection open without an answer is not probed further, since it may be a busy master.
func TestAskWhatSaysNothing(t *testing.T) {
	closing, _ := listen(t, func(net.Conn) {})
	assert.Equal(t, Unknown, Ask(within(t), closing))

	silent, accepted := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.Equal(t, Unknown, Ask(ctx, silent))
	assert.EqualValues(t, 1, accepted.Load())

	canceled, end := context.WithCancel(t.Context())
	end()
	assert.Equal(t, Unknown, Ask(canceled, silent))
}
