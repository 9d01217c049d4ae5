package transfer_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write is a request to write bytes to a node.
func write(to *node, off int, b []byte) transfer.Request {
	return transfer.Request{Kind: transport.Write, Local: b, Peer: to.name, Addr: to.base + uint64(off)}
}

func batchOf(t testing.TB, n *node, capacity int) *transfer.Batch {
	t.Helper()
	b, err := n.NewBatch(capacity)
	require.NoError(t, err)
	return b
}

func accepted(t testing.TB, subs []transfer.Submission) {
	t.Helper()
	for i, s := range subs {
		require.NoError(t, s.Err, "request %d", i)
	}
}

func state(t testing.TB, b *transfer.Batch, i int) transfer.State {
	t.Helper()
	s, err := b.Status(i)
	require.NoError(t, err)
	return s.State
}

func TestBatchAcceptsAndRefusesApart(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 1<<20), w.node("b", []string{"tcp"}, 1<<20)
	batch := batchOf(t, a, 3)
	require.Equal(t, transfer.Completed, batch.BatchStatus().State, "an empty batch is complete")
	reqs := []transfer.Request{
		write(b, 0, pattern(5000, 1)),
		{Kind: 7, Local: make([]byte, 1), Peer: "b", Addr: b.base},
		write(a, 0, pattern(5000, 2)),
	}
	subs := batch.Submit(reqs)
	reqs[0].Peer, reqs[2].Addr = "changed", 5 // Requests are copied.
	require.Equal(t, 0, subs[0].Index)
	require.Equal(t, -1, subs[1].Index)
	require.True(t, errs.Is(subs[1].Err, errs.InvalidParams))
	require.Equal(t, 1, subs[2].Index)
	subs = batch.Submit([]transfer.Request{write(b, 10_000, pattern(100, 3)), write(b, 20_000, pattern(100, 4))})
	require.NoError(t, subs[0].Err)
	require.Equal(t, 2, subs[0].Index)
	require.ErrorIs(t, subs[1].Err, transfer.ErrTooManyRequests)

	require.NoError(t, batch.Wait(t.Context()))
	for i := range 3 {
		require.Equal(t, transfer.Completed, state(t, batch, i))
	}
	for _, i := range []int{-1, 3} {
		_, err := batch.Status(i)
		require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	}
	s := batch.BatchStatus()
	require.Equal(t, transfer.Completed, s.State)
	require.Equal(t, uint64(10_100), s.Bytes)
	require.Equal(t, pattern(5000, 1), b.mem[:5000])
	require.Equal(t, pattern(5000, 2), a.mem[:5000])
	require.Equal(t, make([]byte, 100), b.mem[20_000:20_100], "a refused request moves nothing")

	found, err := a.Batch(batch.ID())
	require.NoError(t, err)
	require.Same(t, batch, found)
	require.NoError(t, batch.Free())
	for name, err := range map[string]error{"free": batch.Free(), "submit": batch.Submit(reqs[:1])[0].Err} {
		require.ErrorIs(t, err, transfer.ErrStaleBatch, name)
	}
	_, err = a.Batch(batch.ID())
	require.ErrorIs(t, err, transfer.ErrStaleBatch)
	require.NotEqual(t, batch.ID(), batchOf(t, a, 1).ID())
	_, err = b.Batch(batch.ID())
	require.ErrorIs(t, err, transfer.ErrStaleBatch, "another engine's")
	for _, n := range []int{0, -1, 1<<20 + 1} {
		_, err = a.NewBatch(n)
		require.True(t, errs.Is(err, errs.InvalidParams), "%d: %v", n, err)
	}
}

// TestSubmitReturnsAtOnce: neither an unknown peer, nor a directory that hangs, nor a full
// window holds it up; the request ends by its deadline.
func TestSubmitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		w.hangs["lost"] = true
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: time.Second} })
		start := time.Now()
		batch := batchOf(t, a, 4)
		accepted(t, batch.Submit([]transfer.Request{
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "lost", Addr: 1, Deadline: start.Add(time.Second)},
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "lost", Addr: 1},
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "unknown", Addr: 1},
			write(b, 0, pattern(200_000, 1)),
		}))
		require.Zero(t, time.Since(start))
		require.Equal(t, transfer.Waiting, state(t, batch, 0))
		synctest.Wait()
		require.Equal(t, transfer.Failed, state(t, batch, 2), "that one was answered")
		require.Equal(t, transfer.Pending, state(t, batch, 3))
		require.Equal(t, transfer.Failed, batch.BatchStatus().State, "one that failed is enough")
		require.ErrorIs(t, batch.Free(), transfer.ErrBatchBusy)
		time.Sleep(time.Second)
		synctest.Wait()
		s, err := batch.Status(0)
		require.NoError(t, err)
		require.Equal(t, transfer.Timeout, s.State)
		require.ErrorIs(t, s.Err, transfer.ErrTimeout)
		require.Equal(t, start.Add(time.Second), s.Done)
		require.Equal(t, transfer.Waiting, state(t, batch, 1))
		require.NoError(t, batch.Wait(t.Context()))
		require.Equal(t, transfer.DefaultConfig().ConnectTimeout, time.Since(start))
		require.Equal(t, transfer.Failed, state(t, batch, 1))
		require.Equal(t, transfer.Completed, state(t, batch, 3))
		require.NoError(t, batch.Free())
		a.stop(t)
		b.stop(t)
	})
}

// TestDeadlineOfAQueuedRequest: behind others it ends on time, too.
func TestDeadlineOfAQueuedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 3 * time.Second} })
		batch := batchOf(t, a, 2)
		hasty := write(b, 100_000, pattern(10, 1))
		hasty.Deadline = time.Now().Add(time.Second)
		accepted(t, batch.Submit([]transfer.Request{write(b, 0, pattern(64<<10, 1)), hasty}))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, transfer.Timeout, state(t, batch, 1))
		require.Equal(t, transfer.Pending, state(t, batch, 0))
		require.NoError(t, batch.Wait(t.Context()))
		require.Equal(t, transfer.Completed, state(t, batch, 0))
		a.stop(t)
		b.stop(t)
	})
}

// TestWaitCancelsNothing: its end is the caller's affair.
func TestWaitCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 3 * time.Second} })
		batch := batchOf(t, a, 1)
		accepted(t, batch.Submit([]transfer.Request{write(b, 0, pattern(10, 1))}))
		err := batch.WaitFor(time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, errs.Is(err, errs.RPCTimeout))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, batch.Wait(ctx), context.Canceled)
		require.Equal(t, transfer.Pending, state(t, batch, 0))
		require.NoError(t, batch.WaitFor(3*time.Second))
		require.Equal(t, transfer.Completed, state(t, batch, 0))
		require.NoError(t, batch.WaitFor(0), "also without time, when it is done")
		a.stop(t)
		b.stop(t)
	})
}

func TestStatesHaveUpstreamsNumbers(t *testing.T) {
	want := []string{"waiting", "pending", "invalid", "canceled", "completed", "timeout", "failed"}
	for i, name := range want {
		s := transfer.State(i)
		require.Equal(t, name, s.String())
		require.Equal(t, i >= 2, s.Terminal())
	}
	require.Equal(t, "unknown", transfer.State(99).String())
}

// TestABatchIsFreeWhenItsLastStateIsTerminal: a caller that polls Status may call Free at once.
func TestABatchIsFreeWhenItsLastStateIsTerminal(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 1<<20)
	for range 20_000 {
		batch, err := a.NewBatch(1)
		require.NoError(t, err)
		accepted(t, batch.Submit([]transfer.Request{write(a, 0, pattern(64, 1))}))
		for !state(t, batch, 0).Terminal() {
			runtime.Gosched()
		}
		require.NoError(t, batch.Free())
	}
}
