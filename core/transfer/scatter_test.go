package transfer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestScatter(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b, c := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20), w.node("c", []string{"tcp"}, 1<<20)
	copy(b.mem, pattern(1<<20, 1))
	local := make([]byte, 1000)
	var mu sync.Mutex
	done := map[[2]int]transfer.Status{}
	note := func(r int) func(int, transfer.Status) {
		return func(f int, s transfer.Status) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := done[[2]int{r, f}]; twice {
				t.Errorf("fragment %d of %d ended twice", f, r)
			}
			done[[2]int{r, f}] = s
		}
	}
	ranges := []transfer.Range{
		{Kind: transport.Read, Peer: "b", Base: b.base + 100, Size: 900, Local: local, LocalOffsets: []uint64{0, 500, 990, 600}, RemoteOffsets: []uint64{800, 0, 5, 899},
			Lengths: []uint64{100, 30, 11, 1}, Done: note(0)},
		{Kind: transport.Write, Peer: "c", Base: c.base, Size: 10, Local: pattern(10, 9), LocalOffsets: []uint64{1, 3}, RemoteOffsets: []uint64{9, 10},
			Lengths: []uint64{1, 1}, Done: note(1)},
		{Kind: transport.Read, Peer: "b", Base: b.base, Size: 10, Local: local, Lengths: []uint64{1}, Done: note(2)},
		{Kind: transport.Read, Peer: "b", Base: 1<<64 - 5, Size: 10, Local: local, LocalOffsets: []uint64{0}, RemoteOffsets: []uint64{0}, Lengths: []uint64{1}, Done: note(3)},
		{Kind: transport.Read, Peer: "unknown", Base: 1, Size: 10, Local: local, LocalOffsets: []uint64{0}, RemoteOffsets: []uint64{0}, Lengths: []uint64{0}, Done: note(4)},
		{Kind: transport.Read, Peer: "unknown", Base: 1, Size: 10, Local: local[900:910], LocalOffsets: []uint64{0}, RemoteOffsets: []uint64{0}, Lengths: []uint64{1}},
	}
	s, err := a.SubmitScatter(ranges)
	require.NoError(t, err)
	defer s.Close()
	require.True(t, errs.Is(s.Wait(t.Context()), errs.InvalidParams), "that of the first fragment that failed")
	ok, bad := transfer.Completed, transfer.Invalid
	for at, want := range map[[2]int]transfer.State{
		{0, 0}: ok, {0, 1}: ok, {0, 2}: bad, {0, 3}: ok, {1, 0}: ok, {1, 1}: bad, {2, 0}: bad, {3, 0}: bad, {4, 0}: ok, {5, 0}: transfer.Failed,
	} {
		got, err := s.Status(at[0], at[1])
		require.NoError(t, err)
		require.Equal(t, want, got.State, "%v: %v", at, got.Err)
		if at[0] < 5 {
			require.Equal(t, want, done[at].State, "%v: the callback", at)
		}
	}
	require.Len(t, done, 9)
	require.Equal(t, b.mem[900:1000], local[:100])
	require.Equal(t, b.mem[100:130], local[500:530])
	require.Equal(t, b.mem[999], local[600])
	require.Equal(t, pattern(10, 9)[1], c.mem[9])
	require.Zero(t, c.mem[10])
	_, err = s.Status(0, 4)
	require.Error(t, err)
	_, err = s.Status(6, 0)
	require.Error(t, err)
}

// TestScatterCloseWaits: after it, nothing touches the memory.
func TestScatterCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 3 * time.Second} })
		s, err := a.SubmitScatter([]transfer.Range{{Kind: transport.Read, Peer: "b", Base: b.base, Size: 10, Local: make([]byte, 10),
			LocalOffsets: []uint64{0}, RemoteOffsets: []uint64{0}, Lengths: []uint64{10}}})
		require.NoError(t, err)
		require.ErrorIs(t, s.WaitFor(time.Second), context.DeadlineExceeded)
		got, err := s.Status(0, 0)
		require.NoError(t, err)
		require.Equal(t, transfer.Pending, got.State, "a wait that ends cancels nothing")
		start := time.Now()
		s.Close()
		require.Equal(t, 2*time.Second, time.Since(start))
		s.Close()
		one := []transfer.Range{{Kind: transport.Write, Peer: "b", Base: b.base, Size: 10, Local: pattern(10, 4),
			LocalOffsets: []uint64{2}, RemoteOffsets: []uint64{5}, Lengths: []uint64{3}}}
		require.NoError(t, a.TransferScatter(t.Context(), one))
		require.Equal(t, pattern(10, 4)[2:5], b.mem[5:8])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		require.ErrorIs(t, a.TransferScatter(ctx, one), context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start), "not before the memory is free")
		require.Zero(t, a.Stats().Batches)
		a.stop(t)
		_, err = a.SubmitScatter(nil)
		require.ErrorIs(t, err, transfer.ErrClosed)
		b.stop(t)
	})
}
