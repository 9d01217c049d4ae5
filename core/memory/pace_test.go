package memory

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALargeHeapHasLessGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1: 100, paceSlack: 100, paceSlack + 1: 75, 2 * paceSlack: 50, 4 * paceSlack: 25, 1 << 40: 25} {
		require.Equal(t, want, pace(live), "%d bytes", live)
	}
}

func TestPaceChangesTheRuntimeUntilItIsStopped(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	now := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	heap := make([]byte, 4*paceSlack)
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		stop := Pace()
		time.Sleep(2 * paceTick)
		synctest.Wait()
		require.Equal(t, paceLeast, now())
		stop()
		stop()
		require.Equal(t, 100, now())

		t.Setenv("GOGC", "70")
		stop = Pace()
		time.Sleep(2 * paceTick)
		synctest.Wait()
		require.Equal(t, 100, now(), "who sets GOGC wants that")
		stop()
	})
	runtime.KeepAlive(heap)
}
