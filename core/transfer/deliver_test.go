package transfer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestCompletionsWakeOnlyTheirWaiter: the waiting goroutine polls for them, and a path hands those that
// are OK over where they occur. Failures are reaped, because they are logged, and logging may block.
func TestCompletionsWakeOnlyTheirWaiter(t *testing.T) {
	for name, reapOnly := range map[string]bool{"delivered": false, "reaped": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "tcp")
			a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
			wire := a.wires["tcp"]
			wire.SetReapOnly(reapOnly)
			want := pattern(300_000, 1)
			require.NoError(t, a.move(transport.Write, b, 0, want))
			got := make([]byte, len(want))
			require.NoError(t, a.move(transport.Read, b, 0, got))
			require.Equal(t, want, got)
			if reapOnly {
				require.Positive(t, wire.Reaped())
			} else {
				require.Zero(t, wire.Reaped())
			}
			before := wire.Reaped()
			wire.SetHook(func(memtransport.Event) memtransport.Fault {
				return memtransport.Fault{Err: errs.WithClass(errs.ClassPermanent, "", errors.New("no"))}
			})
			require.Error(t, a.move(transport.Read, b, 0, got[:10]))
			require.Equal(t, before+1, wire.Reaped())
		})
	}
}

// TestWaitingCallerPolls where the path offers it and no completion is there yet.
func TestWaitingCallerPolls(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	wire := a.wires["tcp"]
	require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10)))
	require.Zero(t, wire.Polled(), "it was there when Submit returned")
	wire.SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 5 * time.Millisecond} })
	for wire.Polled() == 0 { // It may be there, too, where this process did not run for so long.
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10)))
	}
}
