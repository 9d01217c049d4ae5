package transfer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestWriteThenReadInSlices(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 300_000} {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		want := pattern(size, 3)
		require.NoError(t, a.move(transport.Write, b, 100, want))
		require.Equal(t, want, b.mem[100:100+size])
		got := make([]byte, size)
		require.NoError(t, a.move(transport.Read, b, 100, got))
		require.Equal(t, want, got)
		require.Equal(t, uint64(size), a.Stats().ReadBytes)
		require.LessOrEqual(t, w.asked("b"), 1, "the descriptor is cached")
	}
}

func TestOwnNameIsACopy(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 16<<20)
	want := pattern(6<<20, 1)
	reqs := []transfer.Request{
		{Kind: transport.Write, Local: want, Peer: "a", Addr: a.base},
		{Kind: transport.Write, Local: want, Peer: "a", Addr: a.base + 8<<20},
	}
	for _, r := range a.Transfer(t.Context(), reqs) {
		require.NoError(t, r.Err)
	}
	require.Equal(t, want, a.mem[8<<20:14<<20])
	require.Equal(t, uint64(2), a.Stats().LocalCopies)
	require.Zero(t, a.wires["tcp"].Dials())

	err := a.move(transport.Read, a, 16<<20-10, make([]byte, 11))
	require.True(t, errs.Is(err, errs.InvalidReplica), "past the end of the region: %v", err)
	closed := pattern(100, 1)
	id, err := a.Register(t.Context(), transfer.Memory{Bytes: closed, FD: -1})
	require.NoError(t, err)
	at := transfer.Request{Kind: transport.Read, Local: make([]byte, 10), Peer: "a", Addr: memory.AddrOf(closed)}
	require.True(t, errs.Is(a.Transfer(t.Context(), []transfer.Request{at})[0].Err, errs.InvalidParams), "not open to peers")
	require.NoError(t, a.Deregister(t.Context(), id))
	require.True(t, errs.Is(a.Transfer(t.Context(), []transfer.Request{at})[0].Err, errs.InvalidReplica), "given up")
}

func TestBadRequestsHarmNoOtherRequest(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	w.entries["hostile"] = &metadata.Descriptor{Name: "hostile", Transports: []metadata.TransportEndpoint{{
		Name: "tcp", Blob: []byte("b"), Incarnation: 99, Regions: []metadata.RegionKey{{Addr: 1, Length: 1<<64 - 1, Key: []byte("x")}, {Addr: 5, Length: 5, Key: []byte("x")}},
	}}}
	w.entries["foreign"] = &metadata.Descriptor{Name: "foreign", Transports: []metadata.TransportEndpoint{{Name: "rdma"}}}
	buf := make([]byte, 10)
	good := make([]byte, 10)
	reqs := []transfer.Request{
		{Kind: transport.Read, Local: buf, Peer: "", Addr: b.base},
		{Kind: 9, Local: buf, Peer: "b", Addr: b.base},
		{Kind: transport.Read, Local: buf, Peer: "b", Addr: 1<<64 - 3},
		{Kind: transport.Read, Local: buf, Peer: "b", Addr: b.base + 1<<20 - 9},
		{Kind: transport.Read, Local: buf, Peer: "b", Addr: 12345},
		{Kind: transport.Read, Local: buf, Peer: "unknown", Addr: 1},
		{Kind: transport.Read, Local: buf, Peer: "hostile", Addr: 5},
		{Kind: transport.Read, Local: buf, Peer: "foreign", Addr: 5},
		{Kind: transport.Read, Local: good, Peer: "b", Addr: b.base},
	}
	codes := []errs.Code{errs.InvalidParams, errs.InvalidParams, errs.InvalidParams, errs.InvalidReplica, errs.InvalidReplica,
		errs.TransferFail, errs.TransferFail, errs.TransferFail, errs.OK}
	for i, r := range a.Transfer(t.Context(), reqs) {
		require.Equal(t, codes[i], errs.CodeOf(r.Err), "request %d: %v", i, r.Err)
		require.False(t, r.Done.IsZero())
	}
	require.ErrorIs(t, a.Transfer(t.Context(), reqs[5:6])[0].Err, metadata.ErrNotFound)
}

func TestMemoryRegisteredLaterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		more := make([]byte, 8192)
		_, err := b.Register(t.Context(), transfer.Memory{Bytes: more, FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
		require.NoError(t, b.Publish(t.Context()))
		time.Sleep(time.Second) // Asking again at once is of no use.
		r := a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Write, Local: pattern(8192, 5), Peer: "b", Addr: memory.AddrOf(more)}})
		require.NoError(t, r[0].Err)
		require.Equal(t, pattern(8192, 5), more)
		require.Equal(t, 1, a.wires["tcp"].Dials(), "the path is kept")
		a.stop(t)
		b.stop(t)
	})
}

func TestBackPressureAndWindow(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	a.wires["tcp"].SetDepth(2)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := pattern(100_000, byte(i))
			if err := a.move(transport.Write, b, i*100_000, want); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(want))
			if err := a.move(transport.Read, b, i*100_000, got); err != nil || string(got) != string(want) {
				t.Error("wrong bytes", err)
			}
		})
	}
	wg.Wait()
}

func TestStagingForUnregisteredMemory(t *testing.T) {
	w := newWorld(t, "rdma")
	staging, err := memory.NewPool(make([]byte, 32<<10))
	require.NoError(t, err)
	strict := func(_ *transfer.Config, d *transfer.Deps) { d.Carriers[0].LocalAny, d.Staging = false, staging }
	a, b := w.node("a", []string{"rdma"}, 0, strict), w.node("b", []string{"rdma"}, 1<<20)
	_, err = a.Register(t.Context(), transfer.Memory{Bytes: staging.Memory(), FD: -1})
	require.NoError(t, err)
	want := pattern(500_000, 9)
	require.NoError(t, a.move(transport.Write, b, 0, want))
	got := make([]byte, len(want))
	require.NoError(t, a.move(transport.Read, b, 0, got))
	require.Equal(t, want, got)
	require.Equal(t, uint64(2*len(want)), a.Stats().StagedBytes)
	require.Zero(t, staging.Used(), "every buffer came back")

	_, err = a.Register(t.Context(), transfer.Memory{Bytes: got, FD: -1})
	require.NoError(t, err)
	require.NoError(t, a.move(transport.Read, b, 0, got))
	require.Equal(t, uint64(2*len(want)), a.Stats().StagedBytes, "registered memory is not copied")
}

func TestConfigIsChecked(t *testing.T) {
	for _, breakIt := range []func(*transfer.Config){
		func(c *transfer.Config) { c.SliceSize = 0 }, func(c *transfer.Config) { c.Window = 1 }, func(c *transfer.Config) { c.Timeout = -1 },
		func(c *transfer.Config) { c.SliceTimeout = -1 }, func(c *transfer.Config) { c.ConnectTimeout = 0 },
		func(c *transfer.Config) { c.CoolDown = time.Hour }, func(c *transfer.Config) { c.MaxPeers = 0 },
	} {
		cfg := transfer.DefaultConfig()
		breakIt(&cfg)
		_, err := transfer.New(cfg, transfer.Deps{})
		require.True(t, errs.Is(err, errs.InvalidParams))
	}
	_, err := transfer.New(transfer.DefaultConfig(), transfer.Deps{})
	require.ErrorContains(t, err, "directory")
}

func TestRegisterRefusesOverlapAndEmpty(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 4096)
	for _, mem := range [][]byte{nil, a.mem[:1], a.mem[4095:], a.mem[10:20]} {
		_, err := a.Register(t.Context(), transfer.Memory{Bytes: mem, FD: -1})
		require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	}
	require.True(t, errs.Is(a.Deregister(t.Context(), 77), errs.InvalidParams))
}

func TestPublished(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 4096)
	ok, err := a.Published(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	delete(w.entries, "a")
	ok, err = a.Published(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	w.broken = errors.New("down")
	_, err = a.Published(t.Context())
	require.Error(t, err)
}

// TestCopyKeepsItsDeadline: requests to the own name are bound by their deadline as well.
func TestCopyKeepsItsDeadline(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 4096)
	b, err := a.NewBatch(1)
	require.NoError(t, err)
	late := transfer.Request{Kind: transport.Write, Local: []byte("late"), Peer: "a", Addr: a.base, Deadline: time.Now().Add(-time.Hour)}
	require.NoError(t, b.Submit([]transfer.Request{late})[0].Err)
	require.NoError(t, b.Wait(t.Context()))
	s, err := b.Status(0)
	require.NoError(t, err)
	require.Equal(t, transfer.Timeout, s.State)
	require.ErrorIs(t, s.Err, transfer.ErrTimeout)
	require.NoError(t, b.Free())
}

// TestCloseOfAnIdleEngineNeedsNoTime: with a context that has ended there is nothing to wait
// for, and no error; what an engine does in the background does not count as work.
func TestCloseOfAnIdleEngineNeedsNoTime(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		w := newWorld(t, "tcp")
		require.NoError(t, w.node("a", []string{"tcp"}, 0).Close(ended))
		b, c := w.node("b", []string{"tcp"}, 4096), w.node("c", []string{"tcp"}, 4096)
		require.NoError(t, b.move(transport.Write, c, 0, pattern(10, 1)))
		require.NoError(t, b.Close(ended))
	}
}
