package pathkit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestDeliver: the function gets each completion once, at once and beside Reap, which gives out
// what was not taken and says when the path is at its end.
func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		var got []uint64
		p.DeliverTo(func(c transport.Completion) bool {
			if c.ID%2 == 0 {
				return false
			}
			require.Equal(t, transport.OK, c.Status)
			got = append(got, c.ID)
			return true
		})
		reaped := make(chan uint64, 9)
		ended := make(chan error, 1)
		go func() {
			dst := make([]transport.Completion, 4)
			for {
				n, err := p.Reap(t.Context(), dst)
				for _, c := range dst[:n] {
					reaped <- c.ID
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		_, err = p.submit(read(1, time.Time{}), read(2, time.Time{}), read(3, time.Time{}))
		require.NoError(t, err)
		finish := func(id uint64) {
			p.mu.Lock()
			p.Finish(p.find(id), nil, false)
			p.mu.Unlock()
		}
		finish(1)
		require.Equal(t, []uint64{1}, got)
		finish(2)
		require.EqualValues(t, 2, <-reaped)
		p.mu.Lock()
		p.Shut()
		p.mu.Unlock()
		synctest.Wait()
		require.Empty(t, ended, "one is still in flight")
		finish(3)
		require.Equal(t, []uint64{1, 3}, got)
		synctest.Wait()
		require.Len(t, ended, 1)
		require.ErrorIs(t, <-ended, transport.ErrPathClosed)
		require.Empty(t, reaped)
	})
}
