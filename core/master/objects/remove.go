package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Removed is an object that a removal took away.
type Removed struct {
	Extents []segments.Extent
	// Lease is until when a reader may still be reading the extents; it has passed unless
	// the removal was forced.
	Lease lease.Instant
}

// Remove takes a readable object away. Missing, Unfinished (also with force), or Leased
// (unless force).
func (t *Table) Remove(key string, now lease.Instant, force bool) (Removed, Outcome) {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	switch {
	case o == nil || !o.alive():
		return Removed{}, Missing
	case !o.complete:
		return Removed{}, Unfinished
	case o.lease > now && !force:
		return Removed{}, Leased
	}
	t.unlink(i, s, o, true)
	return Removed{Extents: o.extents(nil), Lease: o.lease}, Done
}

// Evict takes the object that the policy proposed away and appends its extents to dst.
// Missing when it is gone; Leased with the end of the lease; Pinned or Unfinished when it
// should never have been proposed.
func (t *Table) Evict(id evict.ID, now lease.Instant, dst []segments.Extent) ([]segments.Extent, lease.Instant, Outcome) {
	i := shardOf(id)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byID[id]
	switch {
	case o == nil:
		return dst, 0, Missing
	case o.pinned:
		return dst, 0, Pinned
	case !o.complete:
		return dst, 0, Unfinished
	case o.lease > now:
		return dst, o.lease, Leased
	}
	t.unlink(i, s, o, false)
	return o.extents(dst), 0, Done
}

// Sweep drops the copies on dead segments of one shard, 0 to Shards-1, and the objects
// that have no other. It returns how many objects went.
func (t *Table) Sweep(i int) int {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := 0
	for _, o := range s.byKey {
		dead := 0
		for _, p := range o.places {
			if !p.seg.Alive() {
				dead++
			}
		}
		switch {
		case dead == len(o.places):
			t.unlink(i, s, o, true)
			gone++
		case dead > 0:
			t.shrink(o)
		}
	}
	return gone
}

// shrink forgets the copies on dead segments of an object that has others.
func (t *Table) shrink(o *object) {
	before := o.footprint()
	rest := make([]place, 0, len(o.places))
	for _, p := range o.places {
		if p.seg.Alive() {
			rest = append(rest, p)
		}
	}
	o.places = rest
	if !o.complete {
		t.writing.Add(int64(o.footprint()) - int64(before))
	}
}
