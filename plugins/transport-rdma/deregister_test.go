package rdma

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeregisterFailsForAll: when a withdrawal fails, no caller that waited for it takes the
// memory for free.
func TestDeregisterFailsForAll(t *testing.T) {
	cfg, w := fakes(t, 1)
	n := launch(t, cfg())
	for range 30 {
		share(t, n, 1, 4096)
		w.FailCall("ibv_dereg_mr", -1, 0, 1, syscall.EBUSY)
		var wg sync.WaitGroup
		var waited [4]error
		for i := range waited {
			wg.Go(func() { waited[i] = n.Deregister(context.Background(), 1) })
		}
		wg.Wait()
		if n.regions.Get(1) != nil {
			for i := range waited {
				require.ErrorContains(t, waited[i], "must not be reused yet")
			}
			require.NoError(t, n.Deregister(within(t), 1), "the next attempt works")
		}
		require.Zero(t, w.Live(os.Getpid())["mr"])
	}
}

// TestStopTriesAgain: memory that could not be withdrawn is when the transport stops.
func TestStopTriesAgain(t *testing.T) {
	cfg, w := fakes(t, 1)
	n := launch(t, cfg())
	share(t, n, 1, 4096)
	w.FailCall("ibv_dereg_mr", -1, 0, 1, syscall.EBUSY)
	require.Error(t, n.Deregister(within(t), 1))
	require.NoError(t, n.Stop(within(t)))
	require.Empty(t, w.Live(os.Getpid()))
}
