package transfer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// hastyRead reads from a peer of which the caller has another copy.
func hastyRead(peer *node, n int) transfer.Request {
	return transfer.Request{Kind: transport.Read, Local: make([]byte, n), Peer: peer.name, Addr: peer.base, Hasty: true}
}

// TestHastyReadLeaves: it ends as soon as the transport finds the peer silent, with all that it has not
// submitted yet, while a read of the same call that has no other copy waits. The peer is not backed off.
func TestHastyReadLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		silent := true
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Len == 10 { // The other read is only slow.
				return memtransport.Fault{Delay: 2 * time.Second}
			}
			return memtransport.Fault{Stall: silent}
		})
		only := hastyRead(b, 10)
		only.Hasty = false
		begin := time.Now()
		res := a.Transfer(t.Context(), []transfer.Request{only, hastyRead(b, 1<<20), hastyRead(b, 100)})
		require.NoError(t, res[0].Err)
		for _, r := range res[1:] {
			require.ErrorIs(t, r.Err, transfer.ErrStalled)
			require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(r.Err))
			require.Equal(t, memtransport.Haste, r.Done.Sub(begin))
		}
		res = a.Transfer(t.Context(), []transfer.Request{hastyRead(b, 100)})
		require.ErrorIs(t, res[0].Err, transfer.ErrStalled)
		silent = false
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 100)), "others wait for it")
		a.stop(t)
		b.stop(t)
	})
}

// TestHastyReadDoesNotWaitForAConnection that the peer or the directory does not make, nor for space that
// others hold at a silent peer.
func TestHastyReadDoesNotWait(t *testing.T) {
	haste := transfer.DefaultConfig().Haste
	t.Run("for a connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "tcp")
			a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
			w.hangs["b"] = true
			only := hastyRead(b, 10)
			only.Hasty = false
			begin := time.Now()
			res := a.Transfer(t.Context(), []transfer.Request{hastyRead(b, 10), only})
			require.ErrorIs(t, res[0].Err, transfer.ErrStalled)
			require.Equal(t, haste, res[0].Done.Sub(begin))
			require.Error(t, res[1].Err)
			require.NotErrorIs(t, res[1].Err, transfer.ErrStalled)
			require.Equal(t, transfer.DefaultConfig().ConnectTimeout, res[1].Done.Sub(begin))
			a.stop(t)
			b.stop(t)
		})
	})
	t.Run("for space", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "tcp")
			a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
			a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Stall: true} })
			done := make(chan error, 1)
			go func() { done <- a.move(transport.Read, b, 0, make([]byte, 1<<20)) }() // fills the window
			time.Sleep(time.Second)
			begin := time.Now()
			res := a.Transfer(t.Context(), []transfer.Request{hastyRead(b, 10)})
			require.ErrorIs(t, res[0].Err, transfer.ErrStalled)
			require.Equal(t, haste, res[0].Done.Sub(begin))
			require.Error(t, <-done)
			a.stop(t)
			b.stop(t)
		})
	})
}
