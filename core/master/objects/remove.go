package objects

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
)

// Remove takes a readable object away. Missing; Unfinished and Copying, also with force;
// Leased or Probed, unless force. One whose segments are absent is missing, and does not come back.
func (t *Table) Remove(key string, now lease.Instant, force bool, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	t.yield(s, o, bin)
	out := copyable(o)
	if out == Done && !force {
		out = o.unread(now)
	}
	if out == Done || !o.none() && o.has(complete) && !o.alive() && o.mounted() {
		bin.whole(o, s.unfinished[o.slot()])
		t.unlink(i, s, o, true)
	}
	return out
}

// unread says whether a reader, or a lookup, protects an object: Leased, Probed.
func (o object) unread(now lease.Instant) Outcome {
	switch {
	case o.leaseEnd() > now:
		return Leased
	case o.probeEnd() > now:
		return Probed
	}
	return Done
}

// Clear takes away the copies that lie on a segment, or with "" the whole object, of an object
// that owner put, or of any with AnyClient, and that no client is reading. Missing, Unfinished, Foreign, Leased, Probed, Copying,
// NoReplica.
func (t *Table) Clear(key string, owner Client, segment string, now lease.Instant, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	switch {
	case o.none() || !o.alive():
		return Missing
	case !o.has(complete):
		return Unfinished
	case owner != AnyClient && !owner.is(o.creator()):
		return Foreign
	case o.copying():
		return Copying
	}
	if out := o.unread(now); out != Done {
		return out
	}
	if segment != "" && !o.on(segment) {
		return NoReplica
	}
	stays := func(r replica) bool { return !r.on(segment) && r.alive() }
	if segment == "" || !slices.ContainsFunc(o.spread().copies, stays) {
		bin.whole(o, s.unfinished[o.slot()])
		t.unlink(i, s, o, true)
	} else {
		t.shed(i, s, o, bin, func(r replica) bool { return r.on(segment) })
	}
	return Done
}

// cut takes the copies that match selects out of an object that has several.
func (t *Table) cut(s *shard, o object, bin *Bin, match func(replica) bool) {
	before := o.footprint()
	m := o.spread()
	for j := range m.copies {
		if match(m.copies[j]) {
			bin.part(o, &m.copies[j], s.unfinished[o.slot()])
		}
	}
	m.copies = slices.DeleteFunc(m.copies, match)
	if !o.has(complete) {
		t.regrown(s, o, int64(o.footprint())-int64(before))
	}
}

// shed is cut, after which the policy knows whether the object is still in memory.
func (t *Table) shed(i int, s *shard, o object, bin *Bin, match func(replica) bool) {
	was := o.listed()
	t.cut(s, o, bin, match)
	t.relist(i, s, o, was)
}

// Sweep drops the copies on dead segments of one step of a walk, and the objects that have
// no other. It returns how many objects went. What lies on live segments, as pieces of a
// striped copy may, is in the bin.
func (t *Table) Sweep(at Cursor, bin *Bin) (gone int, next Cursor) {
	next = t.walk(at, func(i int, s *shard, o object) {
		if !o.mounted() {
			bin.whole(o, s.unfinished[o.slot()])
			t.unlink(i, s, o, true)
			gone++
			return
		}
		for _, r := range o.several() {
			if !r.mounted() {
				t.shed(i, s, o, bin, func(r replica) bool { return !r.mounted() })
				break
			}
		}
	})
	if next == 0 {
		t.homes.trim()
	}
	return gone, next
}
