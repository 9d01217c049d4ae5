package rpc_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestForeignClients: each is answered in its own protocol where that has errors, hung up on
// without waiting for more, named in the log once and counted.
func TestForeignClients(t *testing.T) {
	ready, err := hex.DecodeString("150000000500000056bb817b0000000000000000")
	require.NoError(t, err)
	var log logbuf.Buffer
	var mu sync.Mutex
	counts := map[string]int{}
	// Nothing ends here because of a time: the handshake may take longer than the test.
	addr := serve(t, newTableMaster(), server.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), HandshakeTimeout: time.Hour,
		Foreign: func(protocol string) { mu.Lock(); defer mu.Unlock(); counts[protocol]++ },
	})
	call := func(first []byte) string {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write(first)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		got, err := io.ReadAll(conn)
		if len(got) == 0 && err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded) // A reset is an end as well.
		}
		return string(got)
	}
	for range 3 {
		answer := call(ready)
		require.Greater(t, len(answer), 21)
		assert.Equal(t, "15000c0005000000", hex.EncodeToString([]byte(answer[:8])), "an error for call 5")
		assert.Contains(t, answer[21:], "this is a master of Mooncake in Go")
	}
	assert.Contains(t, call([]byte("GET /metadata?key=k HTTP/1.1\r\nHost: x\r\n\r\n")), "this is the RPC port of a Mooncake master")
	assert.Contains(t, call([]byte("*1\r\n$4\r\nPING\r\n")), "-ERR this is the RPC port")
	assert.Empty(t, call([]byte("\x16\x03\x01\x00\xc5\x01\x00\x00\xc1")))
	assert.Empty(t, call([]byte("SSH-2.0-x\r\n")))

	mu.Lock()
	assert.Equal(t, map[string]int{"coro_rpc": 3, "http": 1, "redis": 1, "tls": 1, "unknown": 1}, counts)
	mu.Unlock()
	text := log.String()
	assert.Equal(t, 5, strings.Count(text, "\n"), "a line for each protocol: %s", text)
	for _, want := range []string{
		"a store client of upstream's (coro_rpc) called the master's RPC port and was turned away: set upstream_clients to serve it, or install this project's Python package",
		"an HTTP client called", `first="GET /metadata"`, "a Redis client called", "a TLS client called", `53 53 48 2d`, "remote=127.0.0.1:",
	} {
		assert.Contains(t, text, want)
	}
}

// TestAClientThatLeavesSaysNothing: a check that only connects is no line in the log.
func TestAClientThatLeavesSaysNothing(t *testing.T) {
	var log logbuf.Buffer
	addr := serve(t, newTableMaster(), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, err = io.ReadAll(conn) // Until the server has seen it.
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.Empty(t, log.String())
}

// TestForeignMasters: the client says what answers at the address, as an error that no
// repetition helps against, and does not ask whether the master is running.
func TestForeignMasters(t *testing.T) {
	if os.Getenv(overGRPC) != "" {
		t.Skip("only package lean asks what answers")
	}
	upstream := answering(t, func(conn net.Conn) {
		head := make([]byte, 20)
		if _, err := io.ReadFull(conn, head[:8]); err != nil || head[0] != 0x15 {
			return // As upstream's master does with what it does not know.
		}
		_, _ = io.ReadFull(conn, head[8:]) // What is unread when it closes destroys the answer.
		answer, _ := hex.DecodeString("1500000000000000110000000000000035ccb31c0487800c01000105322e302e30")
		_, _ = conn.Write(answer)
	})
	redis := answering(t, func(conn net.Conn) {
		b := make([]byte, 64)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			if bytes.Contains(b[:n], []byte("\r\n")) {
				_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
			}
		}
	})
	talkative := answering(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-x\r\n"); _, _ = io.Copy(io.Discard, conn) })
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for _, c := range []struct{ addr, want, next string }{
		{upstream, "is a master of upstream (coro_rpc)", "mooncake master"},
		{web.Listener.Addr().String(), "is an HTTP server", "rpc_port"},
		{secure.Listener.Addr().String(), "is a TLS server", "set security.mode"},
		{redis, "is a Redis server", "redis://"},
		{talkative, `it began with "SSH-2.0-"`, "rpc_port"},
	} {
		_, err := dial(t, c.addr, client.Options{}).Ready(t.Context())
		require.ErrorIs(t, err, errs.ErrForeign, c.want)
		assert.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
		assert.Equal(t, errs.InvalidVersion, errs.CodeOf(err))
		assert.ErrorContains(t, err, c.addr+" is a")
		assert.ErrorContains(t, err, c.want)
		assert.ErrorContains(t, err, c.next)
		assert.NotContains(t, err.Error(), "is the master running")
	}
}

// TestTheMasterTakesOver: once this project's master serves at the address of something else,
// the same client uses it.
func TestTheMasterTakesOver(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	addr := web.Listener.Addr().String()
	c := dial(t, addr, client.Options{MaxRetryDelay: time.Millisecond})
	_, err := c.Ready(t.Context())
	require.Error(t, err)
	web.Close()
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	start(t, newTableMaster(), server.Options{}, ln)
	require.Eventually(t, func() bool { _, err := c.Ready(t.Context()); return err == nil }, 30*time.Second, 5*time.Millisecond)
}

// answering serves each connection with do until the test ends, and returns the address.
func answering(t *testing.T, do func(net.Conn)) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); do(conn) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return ln.Addr().String()
}
