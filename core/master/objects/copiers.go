package objects

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// MaxCopies is how many copies and moves one client may have in progress. Each keeps an object
// from being evicted or removed.
const MaxCopies = 1024

// copiers counts the copies of each client that are in progress.
type copiers struct {
	mu    *sync.Mutex
	count map[model.ClientID]int
}

func newCopiers() copiers { return copiers{mu: &sync.Mutex{}, count: map[model.ClientID]int{}} }

// enter counts one more, unless there are too many.
func (c *copiers) enter(id model.ClientID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[id] >= MaxCopies {
		return false
	}
	c.count[id]++
	return true
}

func (c *copiers) leave(id model.ClientID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[id]--; c.count[id] <= 0 {
		delete(c.count, id)
	}
}
