package busypoll

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// otherRuns reports whether a goroutine that could run did so during a wait of three looks, on the
// only processor.
func otherRuns() bool {
	var ran atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		ran.Store(true)
	}()
	p := Poller{For: time.Minute}
	looks, before := 0, false
	p.Wait(func() bool {
		looks++
		before = ran.Load()
		return looks == 3
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
	for range 20 { // What the scheduler does on its own may come between now and then.
		if !otherRuns() {
			kept++
		}
	}
	require.Positive(t, kept)
}
