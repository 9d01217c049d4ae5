package objects

import (
	"cmp"
	"math"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Unpin ends the soft pins that are over and makes those objects known to the policy, as
// new ones. It returns how many.
func (t *Table) Unpin(now lease.Instant) int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if s.firstPin > now {
			s.mu.Unlock()
			continue
		}
		s.firstPin = math.MaxInt64
		for slot := range s.soft {
			o := s.slots.at(slot)
			if o.rest().pinEnd > now {
				s.firstPin = min(s.firstPin, o.rest().pinEnd)
			} else {
				o.clear(softPin)
				o.rest().pinEnd = 0
				delete(s.soft, slot)
				t.soft.Add(-1)
				t.relist(i, s, o, false)
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// Pinned returns up to limit softly pinned objects that could be evicted now, those that
// were read longest ago first.
func (t *Table) Pinned(now lease.Instant, limit int) []evict.ID {
	type pin struct {
		id   evict.ID
		used lease.Instant
	}
	var pins []pin
	older := func(a, b pin) int { return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.id, b.id)) }
	newest := pin{used: math.MaxInt64} // what comes behind it is not among them
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for slot := range s.soft {
			o := s.slots.at(slot)
			if p := (pin{idOf(i, o), o.used()}); o.leaseEnd() <= now && o.inMemory() && older(p, newest) < 0 {
				pins = append(pins, p)
			}
		}
		s.mu.Unlock()
		if limit > 0 && len(pins) >= 2*limit {
			slices.SortFunc(pins, older)
			pins = pins[:limit]
			newest = pins[limit-1]
		}
	}
	slices.SortFunc(pins, older)
	ids := make([]evict.ID, 0, min(limit, len(pins)))
	for _, p := range pins[:cap(ids)] {
		ids = append(ids, p.id)
	}
	return ids
}

// used is when a softly pinned object was read last, or else put: the policy does not know
// it.
func (o object) used() lease.Instant { return max(o.lease, o.since) }
