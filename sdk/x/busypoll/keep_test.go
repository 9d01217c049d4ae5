package busypoll

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// otherRuns reports whether a runnable goroutine ran during a wait of three polls on the only
// processor.
func otherRuns() bool {
	var ran atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		ran.Store(true)
	}()
	p := Poller{For: time.Minute}
	polls, before := 0, false
	p.Wait(func() bool {
		polls++
		before = ran.Load()
		return polls == 3
	})
	<-done
	return before
}

func TestKeepProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer func(was bool) { alone = was }(alone)
	alone = true
	require.True(t, otherRuns())
	KeepProcessor()
	defer keeping.Store(false)
	kept := 0
	for range 20 { // Now and then the scheduler preempts the wait.
		if !otherRuns() {
			kept++
		}
	}
	require.Positive(t, kept)
}
