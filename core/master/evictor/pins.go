package evictor

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// pinBatch is the most softly pinned objects that one look for them brings.
	pinBatch = 4096
	// pinShare bounds the time spent looking for them: a look is not repeated before this
	// many times as long as it took has passed.
	pinShare = 16
)

// pins are softly pinned objects that could be evicted when they were looked for, those
// unread the longest first. Looking for them goes through all that are pinned, so that one
// look has to serve many puts.
type pins struct {
	queue []evict.ID
	// next is when they are looked for again: then the rest of the queue is out of date.
	next lease.Instant
	full bool // there were more than the queue took
}

// evictPinned takes softly pinned objects, which the policy does not know.
func (e *Evictor) evictPinned(ctx context.Context, r *Request, res *Result) {
	for e.got(r, res) < r.Floor {
		now := e.clock.Now()
		if p := &e.pins; now >= p.next || len(p.queue) == 0 && p.full {
			p.queue = e.table.Pinned(now, pinBatch)
			p.full = len(p.queue) == pinBatch
			end := e.clock.Now()
			p.next = end.Add(pinShare * end.Sub(now))
		}
		if len(e.pins.queue) == 0 {
			return
		}
		keys := res.Keys
		e.begin()
		for len(e.pins.queue) > 0 && e.got(r, res) < r.Floor {
			// The table skips objects that were read or removed since then. Objects that were
			// unpinned are known to the policy by now, and the journal tells it when they end.
			e.take(e.pins.queue[0], now, objects.Rules{Probed: true, Soft: true}, true, res)
			e.pins.queue = e.pins.queue[1:]
		}
		e.finish(ctx, r.Why)
		if e.pins.full = e.pins.full && res.Keys > keys; !e.pins.full {
			return
		}
	}
}
