package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// gatedMaster answers a lookup of more than one key once its gate is open.
type gatedMaster struct {
	store.Master
	gate    chan struct{}
	entered atomic.Int32
}

func (m *gatedMaster) Exist(_ context.Context, _ model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	if len(keys) > 1 {
		m.entered.Add(1)
		<-m.gate
	}
	return make([]model.Result[bool], len(keys)), nil
}

// largeKeys are n keys of 1000 bytes.
func largeKeys(n int) []model.Key {
	keys := make([]model.Key, n)
	for i := range keys {
		keys[i] = strings.Repeat(string(rune('a'+i%26)), 1000)
	}
	return keys
}

// within bounds waits that end at once unless something is broken.
const within = 30 * time.Second

// meter is what a server says about its memory.
type meter struct{ bytes, most, waits atomic.Int64 }

func (m *meter) options(o server.Options) server.Options {
	o.Memory = func(n int64) {
		now := m.bytes.Add(n)
		for most := m.most.Load(); now > most && !m.most.CompareAndSwap(most, now); most = m.most.Load() {
		}
	}
	o.MemoryWait = func() { m.waits.Add(1) }
	return o
}

// TestLargeRequestsWaitForMemory: of six requests of 1 MB, each counted as 4, two are read and
// worked on at a time where there are 9 MB for all. Small ones go on meanwhile.
func TestLargeRequestsWaitForMemory(t *testing.T) {
	m := &gatedMaster{gate: make(chan struct{})}
	open := sync.OnceFunc(func() { close(m.gate) })
	var have meter
	addr := serve(t, m, have.options(server.Options{MemoryBudget: 9 << 20}))
	defer open()
	var calls sync.WaitGroup
	for range 6 {
		c := dial(t, addr, client.Options{})
		calls.Go(func() {
			res, err := c.Exist(context.Background(), anonymous, largeKeys(1000))
			assert.NoError(t, err)
			assert.Len(t, res, 1000)
		})
	}
	require.Eventually(t, func() bool { return have.waits.Load() == 4 && m.entered.Load() == 2 }, within, time.Millisecond)
	_, err := dial(t, addr, client.Options{}).Exist(t.Context(), anonymous, []model.Key{"a"})
	require.NoError(t, err, "a small request does not wait")
	require.EqualValues(t, 2, m.entered.Load())
	open()
	calls.Wait()
	require.Eventually(t, func() bool { return have.bytes.Load() == 0 }, within, time.Millisecond)
	require.Greater(t, have.most.Load(), int64(8_000_000), "two at a time")
	require.LessOrEqual(t, have.most.Load(), int64(9<<20))
}

// TestRequestsThatDoNotFit: one that is larger than the memory for all is refused at once, one that
// waits in vain when its caller's time is over. Their connections stay usable.
func TestRequestsThatDoNotFit(t *testing.T) {
	m := &gatedMaster{gate: make(chan struct{})}
	open := sync.OnceFunc(func() { close(m.gate) })
	var have meter
	addr := serve(t, m, have.options(server.Options{MemoryBudget: 3_000_000, CallTimeout: 50 * time.Millisecond}))
	defer open()
	c := dial(t, addr, client.Options{Connections: 1})
	_, err := c.Exist(t.Context(), anonymous, largeKeys(1000))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "3.8 MiB of memory")
	require.ErrorContains(t, err, "rpc_memory_budget")

	var holding sync.WaitGroup
	other := dial(t, addr, client.Options{})
	holding.Go(func() { _, _ = other.Exist(context.Background(), anonymous, largeKeys(700)) })
	require.Eventually(t, func() bool { return m.entered.Load() == 1 }, within, time.Millisecond)
	_, err = c.Exist(t.Context(), anonymous, largeKeys(700))
	require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "rpc_memory_budget")
	_, err = c.Exist(t.Context(), anonymous, []model.Key{"a"})
	require.NoError(t, err)
	open()
	holding.Wait()
	require.EqualValues(t, 1, m.entered.Load())
	require.Eventually(t, func() bool { return have.bytes.Load() == 0 }, within, time.Millisecond)
}

// TestRequestsOfManyFieldsAreRefused before they are decoded, which would take many times their size.
func TestRequestsOfManyFieldsAreRefused(t *testing.T) {
	addr := serve(t, newTableMaster(), server.Options{})
	over := grpc.ClientConnInterface(lean.NewClient(addr, lean.ClientOptions{}))
	if os.Getenv(overGRPC) != "" {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		over = conn
	}
	defer over.(io.Closer).Close()
	segments := slices.Repeat([]*masterv1.Segment{{}}, 4<<16+1)
	_, err := masterv1.NewMasterServiceClient(over).RemountSegments(t.Context(), &masterv1.RemountSegmentsRequest{Segments: segments})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "more than 262144 fields")
}

// TestAnnouncedRequestsGiveTheirMemoryBack: peers announce requests that take all memory and send
// nothing of them. Another request is worked on all the same, once they were given up.
func TestAnnouncedRequestsGiveTheirMemoryBack(t *testing.T) {
	const announced = 100_000
	var have meter
	m := &gatedMaster{gate: make(chan struct{})}
	close(m.gate)
	addr := serve(t, m, have.options(server.Options{MemoryBudget: announced * 4, HandshakeTimeout: 50 * time.Millisecond}))
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	if os.Getenv(overGRPC) != "" {
		announceOverGRPC(t, conn, announced)
	} else {
		method := masterv1.MasterService_Exist_FullMethodName
		head := binary.LittleEndian.AppendUint32([]byte("MCL1\x00\x00\x00\x00"), 12+announced)
		head = append(binary.LittleEndian.AppendUint32(head, 1), 1, byte(len(method)), 0, 0, 0, 0, 0, 0)
		_, err = conn.Write(append(head, method...))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return have.bytes.Load() == announced*4 }, within, time.Millisecond)
	_, err = dial(t, addr, client.Options{}).Exist(t.Context(), anonymous, largeKeys(90))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return have.bytes.Load() == 0 }, within, time.Millisecond)
}

// announceOverGRPC begins a lookup and sends no more of it than how long it is.
func announceOverGRPC(t *testing.T, conn net.Conn, size uint32) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", masterv1.MasterService_Exist_FullMethodName}, {":authority", "master"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		require.NoError(t, enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	_, err := conn.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	f := http2.NewFramer(conn, conn)
	require.NoError(t, f.WriteSettings())
	require.NoError(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}))
	require.NoError(t, f.WriteData(1, false, binary.BigEndian.AppendUint32([]byte{0}, size)))
}
