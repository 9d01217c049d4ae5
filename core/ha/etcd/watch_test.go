package etcd_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
)

// TestAHungEndpointDelaysNothing: of two endpoints one hangs, whichever it is; what the other one says is told.
func TestAHungEndpointDelaysNothing(t *testing.T) {
	one, two := etcdserver.NewProcess(t), etcdserver.NewProcess(t)
	for _, hung := range []*etcdserver.Process{one, two} {
		alive := one
		if hung == one {
			alive = two
		}
		both := open(t, one.Address+","+two.Address, "c")
		views := make(chan ha.View, 16)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			both.Watch(t.Context(), func(v ha.View) { views <- v })
		}()
		require.False(t, (<-views).Led())
		for range 8 { // Calls to both are made, so that both connections are there.
			_, err := both.View(t.Context())
			require.NoError(t, err)
		}
		hung.Signal(t, syscall.SIGSTOP)
		l, err := open(t, alive.Address, "c").Acquire(t.Context(), "10.0.0.1:50051")
		require.NoError(t, err)
		late := time.After(30 * time.Second)
		for told := false; !told; {
			select {
			case v := <-views: // A watch that changes servers may tell again that no master leads.
				if told = v.Led(); told {
					require.Equal(t, l.View(), v)
				}
			case <-late:
				require.Fail(t, "the change is not told")
			}
		}
		v, err := both.View(t.Context())
		require.NoError(t, err)
		require.Equal(t, l.View(), v)
		require.NoError(t, l.Resign(t.Context()))
		for (<-views).Led() {
		}
		hung.Signal(t, syscall.SIGCONT)
		both.Close()
		<-watched
	}
}
