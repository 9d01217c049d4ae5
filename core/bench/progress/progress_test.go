package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(requests uint64) worker.Progress {
	return worker.Progress{Requests: requests, BlocksLooked: 10 * requests, BlocksHit: 5 * requests, PagesVerified: 5 * requests, BytesPut: requests << 20, BytesGet: requests << 20}
}

func TestLinesComeEveryTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := New(&out, []int{30, 30})
		for i := range 25 { // Five seconds.
			time.Sleep(200 * time.Millisecond)
			d.Update(0, at(uint64(i+1)))
			d.Update(1, at(uint64(i+1)))
			d.Update(2, at(99))
		}
		d.Note("worker 1 ended early")
		d.Close()
		d.Close()
		d.Update(0, at(30))
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, got, 4, out.String())
		require.Equal(t, "requests 19 of 60, hits 50.0 %, get 19 MiB, put 19 MiB, 95 verified, 0 wrong", got[0])
		require.Equal(t, "worker 1 ended early", got[2])
		require.Equal(t, "requests 50 of 60, hits 50.0 %, get 50 MiB, put 50 MiB, 250 verified, 0 wrong", got[3])
	})
}

func TestUnknownTotal(t *testing.T) {
	var out bytes.Buffer
	d := New(&out, []int{30, 0})
	d.Close()
	require.Equal(t, "requests 0, hits 0.0 %, get 0 B, put 0 B, 0 verified, 0 wrong\n", out.String())
}

// TestTerminal: on a terminal one line changes in place, and a note stays above it.
func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDisplay(&out, true, []int{3, 3})
		time.Sleep(refresh)
		d.Update(0, at(1))
		d.Update(1, at(1)) // Too soon after the last change.
		d.Note("worker 0 ended early")
		time.Sleep(refresh)
		d.Update(1, at(2))
		d.Close()
		d.Close()
		d.Note("after the end")
		require.Equal(t, erase+"requests 1 of 6, hits 50.0 %, 2 MiB moved, 0 wrong"+
			erase+"worker 0 ended early\n"+
			erase+"requests 3 of 6, hits 50.0 %, 6 MiB moved, 0 wrong"+
			erase+"requests 3 of 6, hits 50.0 %, 6 MiB moved, 0 wrong\n"+
			"after the end\n", out.String())
	})
}
