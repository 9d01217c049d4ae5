package evictor

import (
	"context"
	"math"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// maxDeferred bounds the deferred candidates. The evictor skips further ones.
const maxDeferred = 1 << 13

// candidate is a proposed object that could not go yet.
type candidate struct {
	evict.Candidate
	until  lease.Instant
	probed bool // only a lookup protects it until then
	ticket uint64
}

// deferral holds candidates in the order in which the policy proposed them.
type deferral struct {
	queue []candidate
	// valid maps an object to the ticket of its place in the queue; a place with another
	// ticket is void.
	valid map[evict.ID]uint64
	next  uint64
	// soonest is no later than the first instant at which a retry can succeed.
	soonest lease.Instant
}

func newDeferral() deferral {
	return deferral{valid: map[evict.ID]uint64{}, soonest: math.MaxInt64}
}

// add defers a candidate. It reports false when there is no space.
func (p *deferral) add(c candidate) bool {
	if len(p.valid) >= maxDeferred {
		return false
	}
	// At twice the bound half of the queue is void, so that the work of compacting is spread
	// over as many additions.
	if len(p.queue) >= 2*maxDeferred {
		p.compact()
	}
	p.next++
	c.ticket = p.next
	p.queue = append(p.queue, c)
	p.valid[c.ID] = p.next
	p.soonest = min(p.soonest, c.until)
	return true
}

// drop gives up an object's place. It reports whether it had one.
func (p *deferral) drop(id evict.ID) bool {
	_, ok := p.valid[id]
	delete(p.valid, id)
	return ok
}

func (p *deferral) due(now lease.Instant) bool { return p.soonest <= now }

// retry offers the candidates that pick selects, in order. try says whether one stays, and
// how.
func (p *deferral) retry(pick func(candidate) bool, try func(candidate) (candidate, bool)) {
	kept := p.queue[:0]
	p.soonest = math.MaxInt64
	for _, c := range p.queue {
		if p.valid[c.ID] != c.ticket {
			continue
		}
		if pick(c) {
			left, stays := try(c)
			if !stays {
				delete(p.valid, c.ID)
				continue
			}
			c.until, c.probed = left.until, left.probed
		}
		p.soonest = min(p.soonest, c.until)
		kept = append(kept, c)
	}
	clear(p.queue[len(kept):])
	p.queue = kept
}

func (p *deferral) compact() {
	p.retry(func(candidate) bool { return false }, nil)
}

// Leased is what leases protect, as far as it came up as a candidate.
type Leased struct {
	Keys  int
	Bytes uint64
	// FirstEnd is the soonest end of such a lease, zero where there is none.
	FirstEnd lease.Instant
}

// Leased looks through the deferred candidates, for the explanation of a failed put.
func (e *Evictor) Leased(ctx context.Context) (l Leased) {
	if e.lock(ctx) != nil {
		return l
	}
	defer e.unlock()
	return e.deferred.leased(e.clock.Now())
}

// leased returns the totals of the candidates that wait for a lease.
func (p *deferral) leased(now lease.Instant) (l Leased) {
	for _, c := range p.queue {
		if p.valid[c.ID] != c.ticket || c.until <= now {
			continue
		}
		l.Keys++
		l.Bytes += c.Size
		if l.FirstEnd == 0 || c.until < l.FirstEnd {
			l.FirstEnd = c.until
		}
	}
	return l
}
