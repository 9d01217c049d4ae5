package transfer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestUnknownAddressHarmsNoOtherRequest: the directory is asked for it, which fails or hangs.
// Others move over the links there are.
func TestUnknownAddressHarmsNoOtherRequest(t *testing.T) {
	for name, outage := range map[string]func(*world){
		"down":  func(w *world) { w.broken = errors.New("the directory is down") },
		"hangs": func(w *world) { w.hangs["b"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "tcp")
				a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
				require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
				time.Sleep(time.Second)
				w.mu.Lock()
				outage(w)
				w.mu.Unlock()
				batch := batchOf(t, a, 3)
				accepted(t, batch.Submit([]transfer.Request{
					write(b, 0, pattern(100, 1)), write(b, 2<<20, pattern(10, 1)), write(b, 0, pattern(300_000, 1)),
				}))
				synctest.Wait()
				start := time.Now()
				require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)), "another call")
				require.Zero(t, time.Since(start))
				require.NoError(t, batch.Wait(t.Context()))
				require.LessOrEqual(t, time.Since(start), transfer.DefaultConfig().ConnectTimeout)
				for i, want := range []transfer.State{transfer.Completed, transfer.Failed, transfer.Completed} {
					s, err := batch.Status(i)
					require.NoError(t, err)
					require.Equal(t, want, s.State, "request %d: %v", i, s.Err)
				}
				require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)), "and later")
				require.NoError(t, batch.Free())
				a.stop(t)
				b.stop(t)
			})
		})
	}
}

// TestLocalFaultHarmsNoOtherRequest: memory of which the own device does not know is no fault
// of the peer.
func TestLocalFaultHarmsNoOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Len == 13 {
				return memtransport.Fault{Err: errs.WithClass(errs.ClassLocalDevice, "test", errors.New("protection error"))}
			}
			return memtransport.Fault{Delay: time.Millisecond}
		})
		got := a.Transfer(t.Context(), []transfer.Request{write(b, 0, pattern(13, 1)), write(b, 0, pattern(400_000, 1))})
		require.ErrorContains(t, got[0].Err, "protection error")
		require.NoError(t, got[1].Err)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		require.Equal(t, 1, w.asked("b"))
		a.stop(t)
		b.stop(t)
	})
}
