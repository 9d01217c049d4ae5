package shm

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDialWhileStopping: a path that is dialled while the transport stops is refused, or
// closed with the others; no connection is left of it.
func TestDialWhileStopping(t *testing.T) {
	server := fresh(t)
	for round := range 800 {
		n := newNode(*DefaultConfig())
		require.NoError(t, n.Start(context.Background(), quiet{}))
		var dials sync.WaitGroup
		for range 16 {
			dials.Go(func() { _, _ = n.Dial(context.Background(), server.Endpoint()) }) // Either way is fine.
		}
		for n.stats.Dials.Load() == 0 {
			runtime.Gosched()
		}
		for range round % 200 { // Stop at different moments.
			runtime.Gosched()
		}
		require.NoError(t, n.Stop(context.Background()))
		dials.Wait()
		require.Zero(t, n.stats.connsOut.Load(), "round %d", round)
	}
}
