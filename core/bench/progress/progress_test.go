package progress

import (
	"bytes"
	"io"
	"strings"
	"sync"
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
		d := NewLines(&out, []int{30, 30})
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
	d := NewLines(&out, []int{30, 0})
	d.Close()
	require.Equal(t, "requests 0, hits 0.0 %, get 0 B, put 0 B, 0 verified, 0 wrong\n", out.String())
}

type shared struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func TestBars(t *testing.T) {
	var out shared
	d := NewBars(&out, []int{3, 3, 0})
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			for i := range uint64(3) {
				d.Update(n, at(i+uint64(n%2)))
			}
		})
	}
	wg.Wait()
	d.Update(0, at(2))
	d.Update(1, at(3))
	d.Update(7, at(3))
	d.Note("worker 0 ended early")
	d.Close()
	d.Close()
	d.Update(0, at(3))
	d.Note("too late")
	require.Contains(t, out.String(), "worker-1 2/3 [===")
	require.Contains(t, out.String(), "worker-2 3/3 [===")
	require.Contains(t, out.String(), "worker-3 2 [")
	require.Contains(t, out.String(), "] hits 50.0 %, 6 MiB, 0 wrong\n", "a line fits into 80 columns")
	require.Contains(t, out.String(), "worker 0 ended early")
	require.NotContains(t, out.String(), "too late")
}

func TestLinesWhereThereIsNoTerminal(t *testing.T) {
	d := New(io.Discard, []int{1})
	defer d.Close()
	require.IsType(t, &lines{}, d)
}
