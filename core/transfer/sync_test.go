package transfer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestSync(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b, c := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20), w.node("c", []string{"tcp"}, 1<<20)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
	more := make([]byte, 100)
	id, err := b.Register(t.Context(), transfer.Memory{Bytes: more, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	require.NoError(t, b.Publish(t.Context()))
	at := &node{name: "b", base: addrOf(more)}
	require.NoError(t, a.move(transport.Write, at, 0, pattern(10, 1)), "what was registered a moment ago is found without Sync")
	require.NoError(t, a.Sync(t.Context(), "b"))
	require.NoError(t, a.move(transport.Write, at, 0, pattern(10, 1)))
	require.NoError(t, b.Deregister(t.Context(), id))

	require.NoError(t, a.move(transport.Write, c, 0, pattern(10, 1)))
	asked := w.asked("b") + w.asked("c")
	require.NoError(t, a.Sync(t.Context(), ""))
	require.Equal(t, asked+2, w.asked("b")+w.asked("c"), "every known peer once")
	require.NoError(t, a.Sync(t.Context(), "a"), "itself needs none")
	require.ErrorIs(t, a.Sync(t.Context(), "unknown"), metadata.ErrNotFound)

	w.broken = errors.New("the directory is down")
	require.ErrorIs(t, a.Sync(t.Context(), "b"), w.broken)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)), "what works goes on working")
	require.ErrorIs(t, a.Sync(t.Context(), ""), w.broken)
	require.Equal(t, 2, a.wires["tcp"].Dials())
}

// TestMemoryRegisteredAnew has another key at the same address.
func TestMemoryRegisteredAnew(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 0)
	mem := make([]byte, 100)
	at := &node{name: "b", base: addrOf(mem)}
	for i := range 3 {
		ids, err := b.RegisterBatch(t.Context(), []transfer.Memory{{Bytes: mem, FD: -1, Access: transport.AccessRemote}})
		require.NoError(t, err)
		require.NoError(t, a.Sync(t.Context(), "b"))
		require.NoError(t, a.move(transport.Write, at, 0, pattern(100, byte(i))))
		require.Equal(t, pattern(100, byte(i)), mem)
		require.NoError(t, b.DeregisterBatch(t.Context(), ids))
	}
	require.Zero(t, a.Stats().Retries, "the new key is used at once")
	require.Equal(t, 1, a.wires["tcp"].Dials())
}

// TestSyncAsksAfterItWasCalled: an answer to an earlier question may be too old.
func TestSyncAsksAfterItWasCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 4096)
		w.hangs["b"] = true
		early := make(chan error, 1)
		go func() { early <- a.Sync(t.Context(), "b") }()
		synctest.Wait()
		w.mu.Lock()
		delete(w.hangs, "b")
		w.mu.Unlock()
		require.NoError(t, a.Sync(t.Context(), "b"))
		require.ErrorIs(t, <-early, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, a.Sync(ctx, "b"), context.Canceled)
		a.stop(t)
		b.stop(t)
	})
}

// TestRefreshDelaysNoTransfer: transfers use what is there while the directory hangs.
func TestRefreshDelaysNoTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		often := func(c *transfer.Config, _ *transfer.Deps) { c.RefreshInterval = 10 * time.Second }
		a, b := w.node("a", []string{"tcp"}, 0, often), w.node("b", []string{"tcp"}, 1<<20)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		require.Equal(t, 1, w.asked("b"))
		time.Sleep(25 * time.Second)
		require.Equal(t, 3, w.asked("b"), "at intervals")
		w.mu.Lock()
		w.hangs["b"] = true
		w.mu.Unlock()
		time.Sleep(6 * time.Second)
		now := time.Now()
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		require.Zero(t, time.Since(now))
		a.stop(t)
		b.stop(t)
	})
}

func TestNoCacheAsksEveryTime(t *testing.T) {
	w := newWorld(t, "tcp")
	never := func(c *transfer.Config, _ *transfer.Deps) { c.NoCache = true }
	a, b := w.node("a", []string{"tcp"}, 0, never), w.node("b", []string{"tcp"}, 1<<20)
	for i := range 3 {
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		require.Equal(t, i+1, w.asked("b"))
	}
	require.Equal(t, 1, a.wires["tcp"].Dials(), "paths are kept all the same")
}

// TestChangesArePublished: a transport that changes makes the engine publish anew, changes
// that come together once, and a directory that is down for a moment does not lose them.
func TestChangesArePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		var r *railed
		a := w.node("a", []string{"rdma"}, 4096, withRails(&r, names("m", 1), names("m", 1)))
		tells := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.tells["a"]
		}
		require.Equal(t, 1, tells())
		r.plug("m0", false)
		time.Sleep(time.Second)
		require.Equal(t, 1, tells(), "peers do not see the rails of this side")
		for _, at := range []string{"1", "2", "3", "4", "5"} {
			r.move(at)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.Equal(t, 2, tells(), "together")
		w.mu.Lock()
		w.broken = errors.New("the directory is down")
		w.mu.Unlock()
		r.move("6")
		time.Sleep(time.Second)
		w.mu.Lock()
		w.broken = nil
		w.mu.Unlock()
		failed := tells()
		require.Greater(t, failed, 3, "tried again")
		time.Sleep(10 * time.Second)
		require.Equal(t, failed+1, tells())
		require.NoError(t, a.Withdraw(t.Context()))
		r.move("7")
		time.Sleep(10 * time.Second)
		require.Equal(t, failed+1, tells(), "what is withdrawn stays so")
		a.stop(t)
	})
}
