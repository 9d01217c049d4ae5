package evictor

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
)

const (
	// sampleSize is how many objects of an owner are looked at in one step. An owner that
	// has no more loses the least recently used exactly.
	sampleSize = 512
	// sampleTake is how many of a sample go at most: the oldest sixteenth.
	sampleTake = sampleSize / 16
	// sampleKeep is how long what is left of a sample serves further puts.
	sampleKeep = time.Second
	// maxSamples bounds the owners of which a sample is kept.
	maxSamples = 64
	// maxIdleSamples bounds the samples of which nothing may go.
	maxIdleSamples = 4
)

// sample is what is left of a look at what an owner has, the next to go first.
type sample struct {
	ranks []objects.Rank
	until lease.Instant
}

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
		var ranks []objects.Rank
		ranks, whole = e.sample(r.Owner, rules, now)
		e.begin()
		for len(ranks) > 0 && res.Bytes < goal {
			one := rules
			one.Seq = ranks[0].Seq
			e.take(ranks[0].ID, now, one, true, res)
			ranks = ranks[1:]
		}
		e.finish(ctx, r.Why)
		if len(ranks) > 0 && rules == (objects.Rules{}) {
			e.keep(r.Owner, ranks, now)
		}
		if e.table.Full() {
			res.Err = e.drain(ctx)
		}
		if idle++; res.Keys > keys {
			idle = 0
		}
	}
	return res.Keys - before
}

// sample returns what is to go next of what an owner has, and whether that is all that may.
func (e *Evictor) sample(owner string, rules objects.Rules, now lease.Instant) (ranks []objects.Rank, whole bool) {
	if rules == (objects.Rules{}) {
		left := e.samples[owner]
		delete(e.samples, owner)
		if len(left.ranks) > 0 && now < left.until {
			return left.ranks, false
		}
	}
	ranks, whole = e.table.Sample(owner, now, rules, sampleSize)
	if !whole {
		ranks = ranks[:min(len(ranks), sampleTake)]
	}
	return ranks, whole
}

// keep keeps what is left of a sample: a call that puts many objects comes for each of them.
func (e *Evictor) keep(owner string, ranks []objects.Rank, now lease.Instant) {
	if len(e.samples) >= maxSamples {
		clear(e.samples)
	}
	e.samples[owner] = sample{ranks, now.Add(sampleKeep)}
}
