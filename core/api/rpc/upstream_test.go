package rpc_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
)

// existing answers ExistKey of upstream's clients: every key is there.
type existing struct{}

func (existing) Answer(_ context.Context, p *upstream.Peer, function uint32, body, out []byte) ([]byte, error) {
	if function != calls.BatchExistKey.ID() {
		return nil, &upstream.Refused{Code: upstream.CodeUnsupported, Message: "only BatchExistKey is served"}
	}
	var q calls.BatchExistKeyRequest
	versions, err := calls.BatchExistKey.DecodeRequest(body, &q)
	if err != nil {
		return nil, &upstream.Refused{Code: upstream.CodeUndecodable, Message: err.Error()}
	}
	r := make([]calls.Expected[bool], len(q.Keys))
	for i := range r {
		r[i].Value = true
	}
	return calls.BatchExistKey.AppendResponse(out, p.Narrow(versions, calls.BatchExistKey), &r)
}

// upstreamClient is one connection of a client of upstream's.
type upstreamClient struct {
	t *testing.T
	net.Conn
}

func dialUpstream(t *testing.T, addr string) upstreamClient {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(within)))
	return upstreamClient{t, conn}
}

// header is that of a request with a body of n bytes.
func (c upstreamClient) header(function uint32, n int) []byte {
	b := make([]byte, 20)
	b[0] = 0x15
	binary.LittleEndian.PutUint32(b[8:], function)
	binary.LittleEndian.PutUint32(b[12:], uint32(n))
	return b
}

// answer reads the answer to a request.
func (c upstreamClient) answer() (code byte, body []byte) {
	head := make([]byte, 16)
	_, err := io.ReadFull(c, head)
	require.NoError(c.t, err)
	body = make([]byte, binary.LittleEndian.Uint32(head[8:]))
	_, err = io.ReadFull(c, body)
	require.NoError(c.t, err)
	return head[2], body
}

// exist looks keys up, and returns the code and the body of the answer.
func (c upstreamClient) exist(keys []string) (code byte, body []byte) {
	b, err := calls.BatchExistKey.AppendRequest(nil, calls.V13, &calls.BatchExistKeyRequest{Keys: keys, Tenant: "default"})
	require.NoError(c.t, err)
	_, err = c.Write(append(c.header(calls.BatchExistKey.ID(), len(b)), b...))
	require.NoError(c.t, err)
	return c.answer()
}

// TestUpstreamsClientsAtTheSamePort: the port serves gRPC, package lean and upstream's clients at once,
// and counts what they call under the same names.
func TestUpstreamsClientsAtTheSamePort(t *testing.T) {
	var lookups, connections atomic.Int32
	addr := serve(t, newTableMaster(), server.Options{
		Upstream: existing{}, UpstreamConnections: func(more int) { connections.Add(int32(more)) },
		Observe: func(method string, _ time.Duration) {
			if method == "Exist" {
				lookups.Add(1)
			}
		},
	})
	up := dialUpstream(t, addr)
	own, over := dial(t, addr, client.Options{}), dial(t, addr, client.Options{GRPC: true})
	for range 3 {
		code, body := up.exist([]string{"a", "b"})
		require.Zero(t, code, "%q", body)
		var r []calls.Expected[bool]
		require.NoError(t, calls.BatchExistKey.DecodeResponse(body, calls.V13, &r))
		require.Len(t, r, 2)
		require.True(t, r[1].Value)
		for _, c := range []*client.Client{own, over} {
			_, err := c.Exist(t.Context(), anonymous, []model.Key{"a"})
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return lookups.Load() == 9 }, within, time.Millisecond)
	require.EqualValues(t, 1, connections.Load())
	_, err := up.Write(up.header(calls.Ping.ID(), 0))
	require.NoError(t, err)
	code, body := up.answer()
	require.EqualValues(t, 255, code)
	require.Contains(t, string(body), "only BatchExistKey is served")
	require.NoError(t, up.Close())
	require.Eventually(t, func() bool { return connections.Load() == 0 }, within, time.Millisecond)
}

// TestLargeRequestsOfUpstreamsClients have their memory from the budget of all: one that does not fit is
// refused, and the connection goes on.
func TestLargeRequestsOfUpstreamsClients(t *testing.T) {
	m := &gatedMaster{gate: make(chan struct{})}
	var have meter
	addr := serve(t, m, have.options(server.Options{Upstream: existing{}, MemoryBudget: 3_000_000, CallTimeout: 50 * time.Millisecond}))
	up := dialUpstream(t, addr)
	code, body := up.exist(largeKeys(1000))
	require.EqualValues(t, 255, code)
	require.Contains(t, string(body), "the master has 2.9 MiB for all large requests together")
	require.Contains(t, string(body), "rpc_memory_budget")

	own := dial(t, addr, client.Options{})
	held := make(chan error, 1)
	go func() {
		_, err := own.Exist(context.Background(), anonymous, largeKeys(700))
		held <- err
	}()
	require.Eventually(t, func() bool { return m.entered.Load() == 1 }, within, time.Millisecond)
	code, body = up.exist(largeKeys(700))
	require.EqualValues(t, 255, code)
	require.Contains(t, string(body), "other large requests held")
	close(m.gate)
	<-held
	require.Eventually(t, func() bool { return have.bytes.Load() == 0 }, within, time.Millisecond)
	code, _ = up.exist(largeKeys(700))
	require.Zero(t, code)
	require.EqualValues(t, 1, have.waits.Load())
	require.Greater(t, have.most.Load(), int64(700_000*4))
	require.Eventually(t, func() bool { return have.bytes.Load() == 0 }, within, time.Millisecond)
}

// TestUpstreamOverRDMAAndTLS are turned away with a line in the log that says what to do, also where
// upstream's clients are served.
func TestUpstreamOverRDMAAndTLS(t *testing.T) {
	var log logbuf.Buffer
	addr := serve(t, newTableMaster(), server.Options{Upstream: existing{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, first := range []string{"\x3e\x3a\xe3\xa2\xfe\x80", "\x16\x03\x01\x00\xc5\x01\x00\x00\xc1"} {
		up := dialUpstream(t, addr)
		_, err := io.WriteString(up, first)
		require.NoError(t, err)
		_, err = io.ReadAll(up)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.Contains(t, log.String(), "a store client of upstream's (coro_rpc over RDMA) called the master's RPC port and was turned away: unset MC_RPC_PROTOCOL there")
	require.Contains(t, log.String(), "a TLS client called")
}

// TestStopWithAllClients: Stop answers what is in progress, over every framing, and closes the
// connections.
func TestStopWithAllClients(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop := start(t, newTableMaster(), server.Options{Upstream: existing{}}, ln)
	up := dialUpstream(t, ln.Addr().String())
	code, _ := up.exist([]string{"a"})
	require.Zero(t, code)
	stop()
	rest, err := io.ReadAll(up)
	require.NoError(t, err)
	require.Empty(t, rest)
}
