package get

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
)

const (
	// maxReleases bounds the calls of Release in flight, and releaseTimeout each.
	maxReleases, releaseTimeout = 64, 2 * time.Second
)

// releases are the calls of Release in flight. The zero value has none.
type releases struct {
	mu     sync.Mutex
	n      int
	closed bool
	tasks  sync.WaitGroup
}

// begin reports whether one more call may begin, which end ends.
func (l *releases) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.n == maxReleases {
		return false
	}
	l.n++
	l.tasks.Add(1)
	return true
}

func (l *releases) end() {
	l.mu.Lock()
	l.n--
	l.mu.Unlock()
	l.tasks.Done()
}

// free has a node free what it staged, in the background; freed counts the calls. Where that fails, or too many calls are in flight, the node frees
// it after its time.
func (l *releases) free(b *base.Base, s *stageCall, freed *sync.WaitGroup) {
	if s.err != nil || !l.begin() {
		return
	}
	endpoint, id := s.endpoint, s.got.ID
	freed.Go(func() {
		defer l.end()
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		if err := b.Tiers.Release(ctx, endpoint, id); err != nil {
			b.Log.Warn("a node was not told to free what it staged; it does so by itself after a while", "endpoint", endpoint, "error", err)
		}
	})
}

// close ends the calls, in bounded time. There are no later ones.
func (l *releases) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.tasks.Wait()
}
