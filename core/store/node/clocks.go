package node

import (
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// maxClocks bounds the masters whose clocks a node knows. One that it does not know makes no grants that count.
const maxClocks = 64

// clocks are those of masters, which the node compares with its own. Safe for concurrent use.
type clocks struct {
	mu   sync.Mutex
	of   map[uint64]*grant.Clock
	last []uint64 // in the order in which they were heard of
}

var began = boottime.Time()

// now is the clock of grants at a node. It goes on while the machine sleeps, so that grants end meanwhile.
func (c *clocks) now() time.Duration { return boottime.Time().Sub(began) }

// set makes a clock the one of a master.
func (c *clocks) set(id uint64, k *grant.Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[uint64]*grant.Clock{}
	}
	if c.of[id] == nil {
		if len(c.last) == maxClocks {
			delete(c.of, c.last[0])
			c.last = slices.Delete(c.last, 0, 1)
		}
		c.last = append(c.last, id)
	}
	c.of[id] = k
}

// heard takes the answer to a ping.
func (c *clocks) heard(sent time.Time, shown model.Clock) {
	c.mu.Lock()
	k := c.of[shown.ID]
	c.mu.Unlock()
	if k != nil {
		k.Hear(sent.Sub(began), c.now(), shown.Shown)
	}
}
