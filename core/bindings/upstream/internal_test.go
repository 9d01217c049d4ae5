package upstream

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
)

// A caller that knows three states must not take another for success.
func TestThreeStates(t *testing.T) {
	for s, want := range map[transfer.State]transfer.State{
		transfer.Waiting: transfer.Waiting, transfer.Pending: transfer.Waiting, transfer.Completed: transfer.Completed,
		transfer.Failed: transfer.Failed, transfer.Timeout: transfer.Failed, transfer.Canceled: transfer.Failed, transfer.Invalid: transfer.Failed,
	} {
		require.Equal(t, want, reported(s))
	}
}

// What was added runs once, at the same time. That it runs at a signal, and that the process
// ends, is tested with a process of its own, in test/capi.
func TestShutdownRunsEachTaskOnce(t *testing.T) {
	var n atomic.Int32
	s := Shutdown{on: true}
	both := make(chan struct{})
	s.Add(1, func() { n.Add(1); <-both })
	s.Add(2, func() { t.Error("it was replaced") })
	s.Add(2, func() { n.Add(1); close(both) })
	s.Add(3, func() { t.Error("it was taken back") })
	s.Remove(3)
	s.Remove(4)
	s.run()
	s.run()
	require.EqualValues(t, 2, n.Load())
}
