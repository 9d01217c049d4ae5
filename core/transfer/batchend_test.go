package transfer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestCancel: a request of which nothing is in flight ends at once. Any other ends when the transport
// completes its operations, so that its memory is free in the terminal state.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		const slow = 3 * time.Second
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: slow} })
		w.hangs["lost"] = true
		batch := batchOf(t, a, 10)
		accepted(t, batch.Submit([]transfer.Request{
			write(b, 0, pattern(64<<10, 1)), // the window
			write(b, 100_000, pattern(10, 1)),
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "lost", Addr: 1},
		}))
		synctest.Wait()
		start := time.Now()
		batch.Cancel()
		synctest.Wait()
		require.Equal(t, transfer.Pending, state(t, batch, 0))
		require.Equal(t, transfer.Canceled, state(t, batch, 1))
		require.Equal(t, transfer.Canceled, state(t, batch, 2))
		require.ErrorIs(t, batch.Submit([]transfer.Request{write(b, 0, nil)})[0].Err, transfer.ErrCanceled)
		require.NoError(t, batch.Wait(t.Context()))
		require.Equal(t, slow, time.Since(start))
		s := batch.BatchStatus()
		require.Equal(t, transfer.Canceled, s.State)
		require.ErrorIs(t, s.Err, transfer.ErrCanceled)
		require.NoError(t, batch.Free())
		a.stop(t)
		b.stop(t)
	})
}

// TestCancelOfAStalledTransport is bounded even where the transport never lets go.
func TestCancelOfAStalledTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Hold: true, Late: true} })
		batch := batchOf(t, a, 1)
		accepted(t, batch.Submit([]transfer.Request{write(b, 0, pattern(10, 1))}))
		synctest.Wait()
		batch.Cancel()
		start := time.Now()
		require.NoError(t, batch.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(start), transfer.DefaultConfig().SliceTimeout+10*time.Second)
		require.Equal(t, transfer.Canceled, state(t, batch, 0))
		a.stop(t)
		b.stop(t)
	})
}

// TestQuarantineInABatch: the state is terminal, and the error says that the memory is not
// free; a cancelled request says so as well.
func TestQuarantineInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
			return memtransport.Fault{Err: errPath, Quarantine: true, Delay: time.Second}
		})
		batch := batchOf(t, a, 2)
		accepted(t, batch.Submit([]transfer.Request{write(b, 0, pattern(10, 1))}))
		synctest.Wait()
		batch.Cancel()
		require.NoError(t, batch.Wait(t.Context()))
		s, err := batch.Status(0)
		require.NoError(t, err)
		require.ErrorIs(t, s.Err, transfer.ErrQuarantined)
		require.ErrorIs(t, s.Err, transfer.ErrCanceled)
		a.stop(t)
		b.stop(t)
	})
}

// TestCloseWithOpenBatches waits, then cancels, and is bounded.
func TestCloseWithOpenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		w.hangs["lost"] = true
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: time.Minute} })
		batch := batchOf(t, a, 3)
		accepted(t, batch.Submit([]transfer.Request{
			write(b, 0, pattern(10, 1)), {Kind: transport.Read, Local: make([]byte, 10), Peer: "lost", Addr: 1, Deadline: time.Now().Add(time.Hour)},
		}))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, a.Close(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(start), 10*time.Second)
		for i := range 2 {
			require.True(t, state(t, batch, i).Terminal())
		}
		require.ErrorIs(t, batch.Submit([]transfer.Request{write(b, 0, nil)})[0].Err, transfer.ErrClosed)
		require.NoError(t, batch.Free())
		_, err := a.NewBatch(1)
		require.ErrorIs(t, err, transfer.ErrClosed)
		b.stop(t)
	})
}

// TestPeerKilledAndRestarted: its requests fail within their deadline, those to others go
// on, and a new process under the same name works.
func TestPeerKilledAndRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b, c := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20), w.node("c", []string{"tcp"}, 1<<20)
		var dead atomic.Bool
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
			return memtransport.Fault{Delay: 10 * time.Millisecond, Stall: e.To == "b" && dead.Load()}
		})
		batch := batchOf(t, a, 3)
		deadline := time.Now().Add(2 * time.Second)
		kill := write(b, 0, pattern(1<<20, 1))
		kill.Deadline = deadline
		accepted(t, batch.Submit([]transfer.Request{kill, write(c, 0, pattern(1<<20, 2))}))
		time.Sleep(30 * time.Millisecond)
		dead.Store(true)
		b.wires["tcp"].Kill()
		require.NoError(t, batch.Wait(t.Context()))
		require.False(t, time.Now().After(deadline), "%v late", time.Since(deadline))
		require.NotEqual(t, transfer.Completed, state(t, batch, 0))
		s, err := batch.Status(1)
		require.NoError(t, err)
		require.Equal(t, transfer.Completed, s.State)
		require.Equal(t, 160*time.Millisecond, s.Done.Sub(deadline.Add(-2*time.Second)), "16 windows, not delayed")

		again := w.node("b", []string{"tcp"}, 1<<20)
		dead.Store(false)
		time.Sleep(transfer.DefaultConfig().MaxCoolDown)
		require.NoError(t, a.move(transport.Write, again, 0, pattern(100, 3)))
		require.Equal(t, pattern(100, 3), again.mem[:100])
		for _, n := range []*node{a, b, c, again} {
			n.stop(t)
		}
	})
}
