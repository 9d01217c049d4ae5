package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// TestBounds: a process that asks for too much gets an error, and no other is kept out.
func TestBounds(t *testing.T) {
	_, socket := startServer(t, startPool(t), func(c *serve.Config) { c.MaxPeers, c.MaxLent, c.LendSize = 2, 2, 4<<20 })
	good, _ := attach(t, socket, nil)
	require.NoError(t, good.Put(t.Context(), "k", content("k", 100_000), one))
	r := newRogue(t, socket)
	_, err := r.rpc.Ready(t.Context(), &localv1.ReadyRequest{})
	require.NoError(t, err)
	c, err := frame.Dial(t.Context(), socket)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, frame.WritePreamble(c, frame.Lifeline, frame.Token{}))
	line := frame.Conn{UnixConn: c}
	require.NoError(t, line.Send(time.Time{}, &localv1.AttachRequest{Step: &localv1.AttachRequest_Hello{Hello: &localv1.Hello{}}}, -1))
	var resp localv1.AttachResponse
	_, err = line.Recv(time.Now().Add(30*time.Second), &resp)
	require.NoError(t, err)
	require.ErrorContains(t, wire.FromProto(resp.GetError()), "2 processes are attached")

	lent, err := r.rpc.Lend(t.Context(), &localv1.LendRequest{Keys: [][]byte{[]byte("k"), []byte("k"), []byte("k")}})
	require.NoError(t, err)
	require.Len(t, lent.GetErrors(), 0, "leases are counted when they are given")
	lent, err = r.rpc.Lend(t.Context(), &localv1.LendRequest{Keys: [][]byte{[]byte("k")}})
	require.NoError(t, err)
	require.Len(t, lent.GetErrors(), 1)
	require.EqualValues(t, errs.BufferOverflow, lent.GetErrors()[0].GetError().GetCode())
	b, err := good.GetBuffer(t.Context(), "k")
	require.NoError(t, err)
	b.Release()
	keys := make([][]byte, 65537)
	for i := range keys {
		keys[i] = []byte(strings.Repeat("x", 8))
	}
	_, err = r.rpc.Exist(t.Context(), &localv1.ExistRequest{Keys: keys})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(wire.FromStatus("", err)))
}

// TestLoanToTheDead: what a process that died was about to be lent comes back.
func TestLoanToTheDead(t *testing.T) {
	p := startPool(t)
	s, socket := startServer(t, p, func(c *serve.Config) { c.LendSize = 2 << 20 })
	good, _ := attach(t, socket, func(c *local.Config) { c.LocalBufferSize = 1 << 20 })
	require.NoError(t, good.Put(t.Context(), "k", content("k", 1<<20), one))
	for range 3 {
		r := newRogue(t, socket)
		p.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			_ = r.line.Close() // In the middle of the call, and not before the service noticed it goes on.
			for end := time.Now().Add(30 * time.Second); r.conn.GetState() == connectivity.Ready && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			return memtransport.Fault{Delay: 5 * time.Millisecond}
		})
		_, err := r.rpc.Lend(t.Context(), &localv1.LendRequest{Keys: [][]byte{[]byte("k")}})
		require.Error(t, err)
		require.Eventually(t, func() bool { return s.Figures().Attached == 1 }, 30*time.Second, time.Millisecond)
		require.Zero(t, s.Figures().Calls)
		p.wire.SetHook(nil)
	}
	r := newRogue(t, socket)
	got, err := r.rpc.Lend(t.Context(), &localv1.LendRequest{Keys: [][]byte{[]byte("k")}})
	require.NoError(t, err)
	require.Empty(t, got.GetErrors())
}
