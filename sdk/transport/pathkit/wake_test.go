package pathkit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestShutWakesReapers that wait on a path where nothing is in flight.
func TestShutWakesReapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() {
				_, err := p.Reap(t.Context(), make([]transport.Completion, 1))
				ended <- err
			}()
		}
		synctest.Wait()
		p.mu.Lock()
		p.Shut()
		p.mu.Unlock()
		synctest.Wait()
		require.Len(t, ended, cap(ended))
		for range cap(ended) {
			require.ErrorIs(t, <-ended, transport.ErrPathClosed)
		}
	})
}

// TestOneWakesTheNext: reapers that looked, found nothing and go to sleep only after several
// completions came together wake each other, although their signals became one.
func TestOneWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		dst := make([]transport.Completion, 1)
		const count = 3
		p.mu.Lock()
		for id := range uint64(count) {
			p.Complete(id, nil, false)
		}
		p.mu.Unlock()
		for id := range uint64(count) {
			require.NoError(t, p.Await(t.Context())) // A reaper that is not woken would sleep for ever.
			n, err := p.Take(dst)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, id, dst[0].ID)
		}
	})
}

// TestDeadlineAfterTheOthers: the clock starts again for an operation that comes when all
// deadlines have passed.
func TestDeadlineAfterTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		for id := range uint64(3) {
			_, err = p.submit(read(id, time.Now().Add(time.Second)))
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			p.mu.Lock()
			require.Len(t, p.expired, int(id)+1)
			p.mu.Unlock()
		}
	})
}

// TestActiveWhileAllEnd: the body of the loop may finish any number of operations.
func TestActiveWhileAllEnd(t *testing.T) {
	p := newTestPath(ample)
	_, err := p.add("k", 100)
	require.NoError(t, err)
	for id := range uint64(9) {
		_, err := p.submit(read(id, time.Time{}))
		require.NoError(t, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := 0
	for range p.Active() {
		seen++
		for i := 0; i < 4 && p.Len() > 0; i++ {
			for o := range p.Active() {
				p.Finish(o, nil, false)
				break
			}
		}
	}
	require.Equal(t, 3, seen)
	require.Equal(t, 9, p.Pending())
	p.Shut()
}
