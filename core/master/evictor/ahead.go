package evictor

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// maxReady bounds the candidates that are ready.
	maxReady = 1 << 14
	// aheadTimes is how many times its own need an eviction looks ahead.
	aheadTimes = 7
	// aheadShare bounds the ready candidates to this part of the capacity, in bytes: further ones could change the order.
	aheadShare = 256
)

// ready holds candidates that an earlier eviction found free when it looked ahead, in the order of the policy.
type ready struct {
	ring       []evict.Candidate   // nil before the first; the ID is 0 where an object was dropped
	head, tail uint64              // positions of the first one and behind the last one; the ring has them modulo its length
	at         map[evict.ID]uint64 // positions
	bytes      uint64
}

// add appends a candidate. It reports false when there is no space.
func (r *ready) add(c evict.Candidate) bool {
	if r.tail-r.head == maxReady {
		return false
	}
	if r.ring == nil {
		r.ring, r.at = make([]evict.Candidate, maxReady), map[evict.ID]uint64{}
	}
	r.drop(c.ID) // It is there already if the policy breaks its contract.
	r.ring[r.tail%maxReady], r.at[c.ID] = c, r.tail
	r.tail++
	r.bytes += c.Size
	return true
}

// drop gives up an object's place. It reports whether it had one.
func (r *ready) drop(id evict.ID) bool {
	at, ok := r.at[id]
	if ok {
		c := &r.ring[at%maxReady]
		r.bytes -= c.Size
		*c = evict.Candidate{}
		delete(r.at, id)
	}
	if len(r.at) == 0 {
		r.head = r.tail
	}
	return ok
}

// next removes the first candidate and returns it.
func (r *ready) next() (evict.Candidate, bool) {
	for ; r.head < r.tail; r.head++ {
		if c := r.ring[r.head%maxReady]; c.ID != 0 {
			r.drop(c.ID)
			return c, true
		}
	}
	return evict.Candidate{}, false
}

// ahead returns how many bytes of candidates to ask the policy for where ask are missing: none while so many are ready that they
// go first. Few evictions look ahead, each far, so that most take no longer. One that is large beside the share, as at the
// watermark or in a small pool, does not.
func (e *Evictor) ahead(ask uint64) uint64 {
	most, more := e.told/aheadShare, uint64(0)
	if ask <= most/(1+aheadTimes) {
		more = aheadTimes * ask
	}
	if e.ready.bytes > most-more || e.ready.tail-e.ready.head > maxReady-proposeBatch {
		return 0
	}
	return ask + more
}

// look makes a candidate ready if nothing protects it. keep is true if the candidate must be deferred.
func (e *Evictor) look(c evict.Candidate, now lease.Instant, res *Result) (left candidate, keep bool) {
	until, out := e.table.Protection(c.ID, now)
	if out != objects.Done {
		return e.judge(candidate{Candidate: c}, now, until, out, false, res)
	}
	return candidate{Candidate: c}, !e.ready.add(c)
}
