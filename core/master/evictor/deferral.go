package evictor

import (
	"context"
	"math"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// maxDeferred bounds the deferred candidates. The evictor skips further ones.
const maxDeferred = 1 << 13

// maxSilent bounds those of them whose nodes do not answer, so that others can wait beside them.
const maxSilent = maxDeferred / 2

// leastPlaces is how many candidates the policy is asked for at least where all of them may have to wait.
const leastPlaces = 64

// candidate is a proposed object that could not go yet.
type candidate struct {
	evict.Candidate
	until  lease.Instant
	probed bool // only a lookup protects it until then
	silent bool // its nodes do not answer
	// late is when it goes although no storage tier has it, 0 unless its node is to save it.
	late   lease.Instant
	ticket uint64
}

// deferral holds candidates in the order in which the policy proposed them.
type deferral struct {
	queue []candidate
	// valid maps an object to its place in the queue; a candidate with another ticket is void.
	valid map[evict.ID]spot
	next  uint64
	// saving is the size of the candidates that wait to be saved, in bytes.
	saving uint64
	silent int // of the candidates
	// soonest is no later than the first instant at which a retry can succeed.
	soonest lease.Instant
}

// spot is the place of a candidate.
type spot struct {
	ticket, saving uint64
	silent         bool
}

// spot returns the place of a candidate with its ticket.
func (c *candidate) spot() spot {
	if c.late > 0 {
		return spot{c.ticket, c.Size, c.silent}
	}
	return spot{c.ticket, 0, c.silent}
}

func newDeferral() deferral {
	return deferral{valid: map[evict.ID]spot{}, soonest: math.MaxInt64}
}

// add defers a candidate. It reports false when there is no space.
func (p *deferral) add(c candidate) bool {
	if p.full() || c.silent && p.silent >= maxSilent {
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
	p.set(c)
	p.soonest = min(p.soonest, c.until)
	return true
}

// places returns how many more candidates there is space for.
func (p *deferral) places() int { return max(maxDeferred-len(p.valid), 0) }

// crowded reports whether there is space for so few that the policy is not asked for them.
func (p *deferral) crowded() bool { return p.places() < leastPlaces }

// full reports whether there is no space.
func (p *deferral) full() bool { return p.places() == 0 }

// set notes where a candidate is and whether it waits to be saved.
func (p *deferral) set(c candidate) {
	at := c.spot()
	p.count(p.valid[c.ID], -1)
	p.count(at, 1)
	p.valid[c.ID] = at
}

// drop gives up an object's place. It reports whether it had one.
func (p *deferral) drop(id evict.ID) bool {
	at, ok := p.valid[id]
	delete(p.valid, id)
	p.count(at, -1)
	return ok
}

// count adds a place to the totals, or takes it out.
func (p *deferral) count(at spot, sign int) {
	p.saving += uint64(sign) * at.saving
	if at.silent {
		p.silent += sign
	}
}

func (p *deferral) due(now lease.Instant) bool { return p.soonest <= now }

// retry offers the candidates that pick selects, in order, until there are enough, where that is given. try says whether one
// stays, and how.
func (p *deferral) retry(pick func(candidate) bool, try func(candidate) (candidate, bool), enough func() bool) {
	kept, soonest := p.queue[:0], p.soonest
	p.soonest = math.MaxInt64
	for i, c := range p.queue {
		if enough != nil && enough() {
			kept, p.soonest = append(kept, p.queue[i:]...), min(p.soonest, soonest)
			break
		}
		if p.valid[c.ID].ticket != c.ticket {
			continue
		}
		if pick(c) {
			left, stays := try(c)
			if !stays {
				p.drop(c.ID)
				continue
			}
			c.until, c.probed, c.silent, c.late = left.until, left.probed, left.silent, left.late
			p.set(c)
		}
		p.soonest = min(p.soonest, c.until)
		kept = append(kept, c)
	}
	clear(p.queue[len(kept):])
	p.queue = kept
}

func (p *deferral) compact() {
	p.retry(func(candidate) bool { return false }, nil, nil)
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
		if p.valid[c.ID].ticket != c.ticket || c.until <= now || c.silent || c.late > 0 {
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
