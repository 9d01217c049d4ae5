package objects

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Remove takes a readable object away. Missing; Unfinished and Copying, also with force;
// Leased or Probed, unless force.
func (t *Table) Remove(key string, now lease.Instant, force bool, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	switch {
	case o == nil || !o.alive():
		return Missing
	case !o.has(complete):
		return Unfinished
	case o.copying():
		return Copying
	case force:
	case o.leaseEnd() > now:
		return Leased
	case o.probeEnd() > now:
		return Probed
	}
	bin.whole(o)
	t.unlink(i, s, o, true)
	return Done
}

// Clear takes away the copies that lie on a segment, or with "" the whole object, of an
// object that owner put and nobody is reading. Missing, Unfinished, Foreign, Leased,
// Probed, Copying, NoReplica.
func (t *Table) Clear(key string, owner Client, segment string, now lease.Instant, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	switch {
	case o == nil || !o.alive():
		return Missing
	case !o.has(complete):
		return Unfinished
	case o.creator != owner.number:
		return Foreign
	case o.copying():
		return Copying
	case o.leaseEnd() > now:
		return Leased
	case o.probeEnd() > now:
		return Probed
	case segment == "":
		bin.whole(o)
		t.unlink(i, s, o, true)
		return Done
	case !o.on(segment):
		return NoReplica
	}
	m := o.spread()
	on := func(r replica) bool { return r.on(segment) }
	switch {
	case !slices.ContainsFunc(m.copies, func(r replica) bool { return !r.on(segment) && r.alive() }):
		bin.whole(o)
		t.unlink(i, s, o, true)
	default:
		t.cut(o, bin, on)
	}
	return Done
}

// cut takes the copies that match selects out of an object that has several.
func (t *Table) cut(o *object, bin *Bin, match func(replica) bool) {
	before := o.footprint()
	m := o.spread()
	for j := range m.copies {
		if match(m.copies[j]) {
			bin.part(o, &m.copies[j])
		}
	}
	m.copies = slices.DeleteFunc(m.copies, match)
	if !o.has(complete) {
		t.writing.Add(int64(o.footprint()) - int64(before))
	}
}

// Rules are how far an eviction may go.
type Rules struct {
	// Probed takes what only a lookup protects.
	Probed bool
	// Soft takes softly pinned objects.
	Soft bool
	// Mate is for one of the other members of a group: they are listed once only.
	Mate bool
	// Only, where set, leaves out keys for which it is false. It runs under a lock.
	Only func(key string) bool
}

// Evict takes an object away. Missing when it is gone; Leased, Probed or SoftPinned with
// the end of that; Copying; HardPinned or Unfinished when it should never have been
// proposed; Skipped. tell is false for what the policy itself proposed. The other members
// of its group are appended to mates, unless it is a mate itself: they are of no use any
// more.
func (t *Table) Evict(id evict.ID, now lease.Instant, rules Rules, tell bool, bin *Bin, mates []evict.ID) ([]evict.ID, lease.Instant, Outcome) {
	i, s, o := t.byID(id)
	defer s.mu.Unlock()
	switch {
	case o == nil:
		return mates, 0, Missing
	case o.has(hardPin):
		return mates, 0, HardPinned
	case !o.has(complete):
		return mates, 0, Unfinished
	case o.copying():
		return mates, 0, Copying
	case o.leaseEnd() > now:
		return mates, o.leaseEnd(), Leased
	case o.has(softPin) && !rules.Soft:
		return mates, o.more.pinEnd, SoftPinned
	case o.probeEnd() > now && !rules.Probed:
		return mates, o.probeEnd(), Probed
	case rules.Only != nil && !rules.Only(o.key):
		return mates, 0, Skipped
	}
	if o.more != nil && o.more.group != nil && !rules.Mate {
		mates = t.groups.others(o.more.group, id, mates)
	}
	bin.whole(o)
	t.unlink(i, s, o, tell)
	return mates, 0, Done
}

// Sweep drops the copies on dead segments of one shard, 0 to Shards-1, and the objects
// that have no other. It returns how many objects went. What lies on live segments, as
// pieces of a striped copy may, is in the bin.
func (t *Table) Sweep(i int, bin *Bin) int {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := 0
	s.slots.each(func(o *object) {
		if !o.alive() {
			bin.whole(o)
			t.unlink(i, s, o, true)
			gone++
			return
		}
		for _, r := range o.several() {
			if !r.alive() {
				t.cut(o, bin, func(r replica) bool { return !r.alive() })
				break
			}
		}
	})
	return gone
}
