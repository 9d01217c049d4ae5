package evictor

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/objects"
)

const (
	// sampleSize is how many objects of an owner are looked at in one step. An owner that
	// has no more loses the least recently used exactly.
	sampleSize = 512
	// sampleTake is how many of a sample go at most: the oldest sixteenth.
	sampleTake = sampleSize / 16
	// maxIdleSamples bounds the samples of which nothing may go.
	maxIdleSamples = 4
)

// evictOwned makes room within what one owner has. The policy ranks the objects of all
// owners together, and to reach one's there it would have to turn the order of the others
// over; so the oldest of a sample go. The policy hears of them by the journal.
func (e *Evictor) evictOwned(ctx context.Context, r *Request, res *Result) {
	e.takeOwned(ctx, r, objects.Rules{}, r.Need, res)
	res.Probed = e.takeOwned(ctx, r, objects.Rules{Probed: true}, r.Floor, res)
	if r.Soft {
		res.Soft = e.takeOwned(ctx, r, objects.Rules{Probed: true, Soft: true}, r.Floor, res)
	}
}

// takeOwned takes samples until goal is reached, and returns how many objects went.
func (e *Evictor) takeOwned(ctx context.Context, r *Request, rules objects.Rules, goal uint64, res *Result) int {
	before, whole := res.Keys, false
	for idle := 0; res.Bytes < goal && !whole && idle < maxIdleSamples && ctx.Err() == nil; {
		keys, now := res.Keys, e.clock.Now()
		ids, all := e.table.Sample(r.Owner, now, rules, sampleSize)
		if whole = all; !whole {
			ids = ids[:min(len(ids), sampleTake)]
		}
		e.begin()
		for _, id := range ids {
			if res.Bytes >= goal {
				break
			}
			e.take(id, now, rules, true, res)
		}
		e.finish(ctx, r.Why)
		if e.table.Full() {
			res.Err = e.drain(ctx)
		}
		if idle++; res.Keys > keys {
			idle = 0
		}
	}
	return res.Keys - before
}
