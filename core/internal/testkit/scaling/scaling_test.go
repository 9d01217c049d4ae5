package scaling

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaitsAreCounted(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	before := waits()
	var mu sync.Mutex
	var others sync.WaitGroup
	const n = 10
	for waits() == before { // A goroutine that comes late does not wait.
		mu.Lock()
		for range n {
			others.Go(func() {
				mu.Lock()
				defer mu.Unlock()
			})
		}
		runtime.Gosched()
		mu.Unlock()
		others.Wait()
	}
	require.Greater(t, waits(), before)
}

func TestRunOnAllProcessors(t *testing.T) {
	var on []int
	var mu sync.Mutex
	r := testing.Benchmark(func(b *testing.B) {
		Run(b, func(more func() bool) error {
			mu.Lock()
			if p := runtime.GOMAXPROCS(0); len(on) == 0 || on[len(on)-1] != p {
				on = append(on, p)
			}
			mu.Unlock()
			for more() {
				runtime.Gosched()
			}
			return nil
		})
	})
	require.NotZero(t, r.N)
	require.Equal(t, 1, on[0])
	require.Equal(t, runtime.NumCPU(), on[len(on)-1])
}
