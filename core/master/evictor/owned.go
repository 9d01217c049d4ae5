package evictor

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
)

const (
	// sampleSize is the number of an owner's objects in one sample. An owner that has no more
	// loses exactly its least recently used ones.
	sampleSize = 512
	// sampleTake is the most objects of a sample that are evicted: the oldest sixteenth.
	sampleTake = sampleSize / 16
	// sampleKeep is how long the rest of a sample serves further puts.
	sampleKeep = time.Second
	// maxSamples bounds the owners with a kept sample.
	maxSamples = 64
	// maxIdleSamples bounds the samples that contain no evictable object.
	maxIdleSamples = 4
)

// sample is the rest of a sample of an owner's objects, the next victim first.
type sample struct {
	ranks []objects.Rank
	until lease.Instant
}

// evictOwned evicts objects of one owner. The policy ranks the objects of all owners together, so
// it cannot propose those of one owner without disturbing the order of the others. evictOwned
// therefore evicts the oldest objects of a sample. The policy learns of them from the journal.
func (e *Evictor) evictOwned(ctx context.Context, r *Request, res *Result) {
	e.takeOwned(ctx, r, objects.Rules{Quota: true}, r.Need, res)
	res.Probed = e.takeOwned(ctx, r, objects.Rules{Quota: true, Probed: true}, r.Floor, res)
	if r.Soft {
		res.Soft = e.takeOwned(ctx, r, objects.Rules{Quota: true, Probed: true, Soft: true}, r.Floor, res)
	}
}

// takeOwned takes samples until goal is reached, and returns the number of evicted objects.
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
		if len(ranks) > 0 && !rules.Probed {
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

// sample returns the next victims of an owner, and whether they are all that may be evicted.
func (e *Evictor) sample(owner string, rules objects.Rules, now lease.Instant) (ranks []objects.Rank, whole bool) {
	if !rules.Probed {
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

// keep keeps the rest of a sample, because a call that puts many objects evicts for each of them.
func (e *Evictor) keep(owner string, ranks []objects.Rank, now lease.Instant) {
	if len(e.samples) >= maxSamples {
		clear(e.samples)
	}
	e.samples[owner] = sample{ranks, now.Add(sampleKeep)}
}
