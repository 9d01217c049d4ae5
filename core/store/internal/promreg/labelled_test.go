package promreg_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
)

// TestLabelled: whoever asks first, a value of a label has one counter, and finding it again takes no memory.
func TestLabelled(t *testing.T) {
	const callers, times = 8, 100
	values := []string{"put", "get", "exist", "remove"}
	var made atomic.Int64
	l := promreg.NewLabelled(func(string) *atomic.Int64 {
		made.Add(1)
		return new(atomic.Int64)
	})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range times {
				for _, v := range values {
					l.Of(v).Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, len(values), made.Load())
	for _, v := range values {
		require.EqualValues(t, callers*times, l.Of(v).Load(), v)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { l.Of("put").Add(1) }))
}
