package transfer_test

import (
	"context"
	"errors"
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

// TestDeadPeerDoesNotStallOthers runs in virtual time: requests to a peer that swallows
// everything end by their deadline, those to a good peer take no time at all meanwhile,
// and once the peer is known to be bad, requests to it take no time either.
func TestDeadPeerDoesNotStallOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, good, bad := w.node("a", []string{"tcp"}, 0), w.node("good", []string{"tcp"}, 1<<20), w.node("bad", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{Stall: e.To == "bad"} })
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 { // Far more than the window of the bad path holds.
			wg.Go(func() {
				if err := a.move(transport.Read, bad, 0, make([]byte, 100_000)); err == nil {
					t.Error("a read from a stalled peer succeeded")
				}
			})
		}
		synctest.Wait()
		for range 100 {
			require.NoError(t, a.move(transport.Write, good, 0, pattern(100_000, 1)))
		}
		require.Zero(t, time.Since(start), "the good peer must not wait for the bad one")
		both := a.Transfer(t.Context(), []transfer.Request{
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "bad", Addr: bad.base},
			{Kind: transport.Read, Local: make([]byte, 10), Peer: "good", Addr: good.base},
		})
		require.Error(t, both[0].Err)
		require.NoError(t, both[1].Err)
		require.Equal(t, start, both[1].Done, "nor within one call")
		wg.Wait()
		require.LessOrEqual(t, time.Since(start), 30*time.Second)

		now := time.Now()
		err := a.move(transport.Read, bad, 0, make([]byte, 10))
		require.ErrorContains(t, err, "backed off")
		require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
		require.Zero(t, time.Since(now))

		a.wires["tcp"].SetHook(nil)
		time.Sleep(transfer.DefaultConfig().MaxCoolDown)
		require.NoError(t, a.move(transport.Read, bad, 0, make([]byte, 10)), "it is back")
		require.NoError(t, a.move(transport.Read, bad, 0, make([]byte, 10)))
		for _, n := range []*node{a, good, bad} {
			n.stop(t)
		}
	})
}

// TestPausedProcessBlamesNoPeer: a failure that is noticed long after its deadline says
// that this process did not run; the request goes on, and the peer is not backed off.
func TestPausedProcessBlamesNoPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		cfg := transfer.DefaultConfig()
		var once sync.Once
		a.wires["tcp"].SetHook(func(memtransport.Event) (f memtransport.Fault) {
			once.Do(func() {
				late := errs.WithClass(errs.ClassTransientPath, "wire", context.DeadlineExceeded)
				f = memtransport.Fault{Delay: cfg.SliceTimeout + 1500*time.Millisecond, Err: late}
			})
			return f
		})
		time.Sleep(time.Second) // Nothing has ever arrived since.
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10)))
		now := time.Now()
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10)))
		require.Zero(t, time.Since(now))
		a.stop(t)
		b.stop(t)
	})
}

// TestCallerThatGaveUpLearntSomething: that the peer was silent up to the deadline, which
// counts even if no caller waits for the result any more.
func TestCallerThatGaveUpLearntSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Stall: true} })
		time.Sleep(time.Second) // Nothing has ever arrived since.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		req := []transfer.Request{{Kind: transport.Read, Local: make([]byte, 100_000), Peer: "b", Addr: b.base, Deadline: time.Now().Add(3 * time.Second)}}
		require.ErrorIs(t, a.Transfer(ctx, req)[0].Err, context.Canceled)
		require.ErrorContains(t, a.move(transport.Read, b, 0, make([]byte, 10)), "backed off")
		a.stop(t)
		b.stop(t)
	})
}

// TestUnreachablePeerIsAskedForOnce: many requests at once cost one lookup, and further
// ones none while the peer cools down.
func TestUnreachablePeerIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a := w.node("a", []string{"tcp"}, 0)
		w.broken = errors.New("no route to the metadata server")
		req := []transfer.Request{{Kind: transport.Read, Local: make([]byte, 1), Peer: "x", Addr: 1}}
		for range 50 {
			require.Error(t, a.Transfer(t.Context(), req)[0].Err)
		}
		require.Equal(t, 1, w.asked("x"))
		time.Sleep(transfer.DefaultConfig().CoolDown)
		require.ErrorIs(t, a.Transfer(t.Context(), req)[0].Err, w.broken)
		require.Equal(t, 2, w.asked("x"))
		a.stop(t)
	})
}

// TestCancelWaitsForWhatIsUnderway: the caller may reuse its buffer when Transfer returns,
// so it must not return before the transport let go of it.
func TestCancelWaitsForWhatIsUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		const slow = 3 * time.Second
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: slow} })
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		go func() { time.Sleep(time.Second); cancel() }()
		r := a.Transfer(ctx, []transfer.Request{{Kind: transport.Read, Local: make([]byte, 1<<20), Peer: "b", Addr: b.base}})
		require.ErrorIs(t, r[0].Err, context.Canceled)
		require.Equal(t, slow, time.Since(start), "one window, no more")
		a.stop(t)
		b.stop(t)
	})
}

// TestTransportThatForgets: an operation that never completes, against the contract, ends
// nevertheless: its path is closed, and its memory is not declared free without proof.
func TestTransportThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		short := func(c *transfer.Config, _ *transfer.Deps) { c.Timeout, c.SliceTimeout = time.Second, time.Second }
		a, b := w.node("a", []string{"tcp"}, 0, short), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Hold: true, Late: true} })
		start := time.Now()
		require.Error(t, a.move(transport.Read, b, 0, make([]byte, 10)))
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
		a.wires["tcp"].SetHook(nil)
		time.Sleep(10 * time.Second)
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10)), "on a new path")
		require.Equal(t, 2, a.wires["tcp"].Dials())
		a.stop(t)
		b.stop(t)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: time.Second} })
		errc := make(chan error, 1)
		go func() { errc <- a.move(transport.Read, b, 0, make([]byte, 10)) }()
		synctest.Wait()
		a.stop(t)
		require.NoError(t, <-errc, "Close waits for operations in flight")
		require.ErrorIs(t, a.move(transport.Read, b, 0, make([]byte, 10)), transfer.ErrClosed)
		a.stop(t)
		b.stop(t)
	})
}

// TestPeersAreBounded: the longest unused peer gives way, and comes back when asked for.
func TestPeersAreBounded(t *testing.T) {
	w := newWorld(t, "tcp")
	few := func(c *transfer.Config, _ *transfer.Deps) { c.MaxPeers = 2 }
	a := w.node("a", []string{"tcp"}, 0, few)
	nodes := []*node{w.node("x", []string{"tcp"}, 4096), w.node("y", []string{"tcp"}, 4096), w.node("z", []string{"tcp"}, 4096)}
	for range 3 {
		for _, n := range nodes {
			require.NoError(t, a.move(transport.Write, n, 0, pattern(100, 1)))
		}
	}
	require.Equal(t, 9, a.wires["tcp"].Dials(), "each turn finds its peer gone")
}

// TestCancelWhileSubmitting: a caller that gives up while the operations are being submitted is
// not told that they arrived.
func TestCancelWhileSubmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
			cancel()
			return memtransport.Fault{Delay: time.Second}
		})
		results := a.Transfer(ctx, []transfer.Request{write(b, 0, pattern(10, 1))})
		require.ErrorIs(t, results[0].Err, context.Canceled)
		a.stop(t)
		b.stop(t)
	})
}
