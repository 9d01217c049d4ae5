package memory

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// paceSlack is how much garbage the heap may hold whatever lives in it, in bytes: a small heap is collected seldom.
	paceSlack = 128 << 20
	// paceMost and paceLeast bound the garbage in percent of what lives. paceMost is the runtime's default. A large heap of
	// tables without pointers is cheap to collect, so that less garbage costs little time.
	paceMost, paceLeast = 100, 25
	paceTick            = time.Second
	liveHeap            = "/gc/heap/live:bytes"
)

// Pace has the garbage collector of this process let the heap grow by less the larger it is, until stop is called, which
// waits for that. It leaves the runtime alone where GOGC is set. It is for processes whose heap is mostly tables without
// pointers; a program has one Pace at a time.
func Pace() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	done := make(chan struct{})
	var paces sync.WaitGroup
	paces.Go(func() {
		t := time.NewTicker(paceTick)
		defer t.Stop()
		defer debug.SetGCPercent(debug.SetGCPercent(paceMost))
		for percent := paceMost; ; {
			select {
			case <-done:
				return
			case <-t.C:
			}
			if next := pace(live()); next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		paces.Wait()
	})
}

// live is what lived in the heap at the end of the last collection, in bytes.
func live() uint64 {
	s := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// pace is how much the heap may grow beyond what lives in it, in percent. Its steps are few, since each change stops the
// process for a moment.
func pace(live uint64) int {
	const step = 25
	percent := paceMost
	if live > 0 {
		percent = int(min(paceMost, 100*paceSlack/live)) / step * step
	}
	return max(percent, paceLeast)
}
