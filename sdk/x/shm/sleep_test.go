package shm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sleeps counts how often threads of this process went to sleep voluntarily.
func sleeps(tb testing.TB) (n int) {
	tb.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(tb, err)
	for _, thread := range threads {
		status, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/status")
		if err != nil {
			continue // The thread has ended.
		}
		var k int
		_, after, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		_, err = fmt.Sscan(after, &k)
		require.NoError(tb, err)
		n += k
	}
	return n
}

// TestOneSleepForAnAnswer checks that a goroutine that waits for an answer sleeps once. With a
// system call that the scheduler knows of there would be two sleeps, because the call wakes the
// scheduler's watchdog, which then sleeps again.
func TestOneSleepForAnAnswer(t *testing.T) {
	const rounds = 200
	p := startEcho(t, slowPipe, 0)
	ask := func() int {
		before := sleeps(t)
		for range rounds {
			p.out.Put(make([]byte, echo.EntrySize))
			require.NoError(t, p.out.Publish())
			n, err := p.in.Wait(t.Context())
			require.NoError(t, err)
			p.in.Free(n)
		}
		return sleeps(t) - before
	}
	least := ask()
	for tries := 0; tries < 5 && least >= rounds*14/10; tries++ { // The garbage collector sleeps too.
		least = min(least, ask())
	}
	require.Less(t, least, rounds*14/10)
}
