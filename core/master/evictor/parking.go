package evictor

import (
	"math"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// maxParked bounds the parked candidates; more are spared.
const maxParked = 1 << 16

// candidate is a proposed object that could not go yet.
type candidate struct {
	evict.Candidate
	until  lease.Instant
	ticket uint64
}

// parking holds candidates in the order in which the policy proposed them.
type parking struct {
	queue []candidate
	// valid maps an object to the ticket of its place in the queue; a place with another
	// ticket is void.
	valid map[evict.ID]uint64
	next  uint64
	// soonest is no later than the first instant at which a retry can succeed.
	soonest lease.Instant
}

func newParking() parking {
	return parking{valid: map[evict.ID]uint64{}, soonest: math.MaxInt64}
}

// add parks a candidate. It reports false when there is no room.
func (p *parking) add(c evict.Candidate, until lease.Instant) bool {
	if len(p.valid) >= maxParked {
		return false
	}
	// At twice the bound half of the queue is void, so that the work of compacting is spread
	// over as many additions.
	if len(p.queue) >= 2*maxParked {
		p.compact()
	}
	p.next++
	p.queue = append(p.queue, candidate{Candidate: c, until: until, ticket: p.next})
	p.valid[c.ID] = p.next
	p.soonest = min(p.soonest, until)
	return true
}

// drop gives up an object's place. It reports whether it had one.
func (p *parking) drop(id evict.ID) bool {
	_, ok := p.valid[id]
	delete(p.valid, id)
	return ok
}

func (p *parking) due(now lease.Instant) bool { return p.soonest <= now }

// retry offers every candidate whose time has come, in order. try says whether it stays,
// and until when.
func (p *parking) retry(now lease.Instant, try func(candidate) (lease.Instant, bool)) {
	kept := p.queue[:0]
	p.soonest = math.MaxInt64
	for _, c := range p.queue {
		if p.valid[c.ID] != c.ticket {
			continue
		}
		if c.until <= now {
			stays := false
			if c.until, stays = try(c); !stays {
				delete(p.valid, c.ID)
				continue
			}
		}
		p.soonest = min(p.soonest, c.until)
		kept = append(kept, c)
	}
	p.queue = kept
}

func (p *parking) compact() {
	p.retry(-1, nil)
}

// leased sums up the candidates that wait for a lease.
func (p *parking) leased(now lease.Instant) (l Leased) {
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
