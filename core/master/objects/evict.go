package objects

import (
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Rules are how far an eviction may go.
type Rules struct {
	// Probed takes what only a lookup protects, or that a storage tier has yet to get.
	Probed bool
	// Soft takes softly pinned objects.
	Soft bool
	// Seq, where set, skips an object that has moved in the order since it had this number.
	Seq uint64
	// Mate is for one of the other members of a group: they are listed once only.
	Mate bool
	// Quota makes space in a quota, which needs no node to confirm that memory is free.
	Quota bool
	// Save retains objects that no storage tier has yet, and with Mark has its node save it. It counts with Table.SaveOnEvict.
	Save, Mark bool
}

// SavePatience is for how long after its put an object that its node is to copy to a storage tier goes only if nothing else
// does. Then the disk is behind, and memory does not wait for it.
const SavePatience = 30 * time.Second

// absentPause and behindPause are how long the evictor leaves an object alone whose segments are absent, or whose nodes are
// behind with their ledgers.
const absentPause, behindPause = 10 * time.Second, time.Second

// Evict takes an object out of memory: away, or, where a storage tier has a copy, its copies in memory. Missing when it
// is gone from there; Leased, Silent, Probed or SoftPinned with
// the end of that; Copying; Moved; Unsaved; HardPinned or Unfinished when it should never have been
// proposed. tell is false for what the policy itself proposed. The other members of its
// group are appended to mates, unless it is a mate itself: they are of no use any more.
func (t *Table) Evict(id evict.ID, now lease.Instant, rules Rules, tell bool, bin *Bin, mates []evict.ID) ([]evict.ID, lease.Instant, Outcome) {
	i, s, o := t.byID(id)
	defer s.mu.Unlock()
	if until, out := t.protected(o, now, rules); out != Done {
		if out == Unsaved && rules.Mark {
			p, _ := o.savable()
			p.Seg.Ledger.Commit(p.Put, t.ending(o)) // See ledger.Watcher.
		}
		return mates, until, out
	}
	if o.rest() != nil && o.rest().group != nil && !rules.Mate {
		mates = t.groups.others(o.rest().group, id, mates)
	}
	if o.stored() {
		was := o.listed() && tell
		t.cut(s, o, bin, func(r replica) bool { return !r.onTier() })
		t.relist(i, s, o, was)
		return mates, 0, Done
	}
	bin.whole(o, s.unfinished[o.slot()])
	t.unlink(i, s, o, tell)
	return mates, 0, Done
}

// unsaved reports whether a complete object had no copy on a storage tier yet, and has a node that can make one.
func (o object) unsaved() bool {
	_, ok := o.savable()
	return ok && !o.has(dropped) && len(o.keyBytes()) <= tier.MaxKey && !o.stored()
}

// savable returns the first extent of a copy whose node can copy the object to a storage tier: the node of the first stripe
// copies all of them.
func (o object) savable() (first segments.Extent, ok bool) {
	copies := o.several()
	if copies == nil {
		return segments.Extent{Seg: o.segment(), Put: ledger.Put(o.id)}, o.segment().Saves(o.size())
	}
	for i := range copies {
		if r := &copies[i]; !r.target && r.alive() && r.parts[0].Seg.Saves(o.size()) {
			return r.parts[0], true
		}
	}
	return segments.Extent{}, false
}

// protected says why an object may not be evicted, and until when where that is known.
func (t *Table) protected(o object, now lease.Instant, rules Rules) (until lease.Instant, out Outcome) {
	switch {
	case o.none() || !o.inMemory():
		return 0, Missing
	case !o.alive() && o.mounted():
		return now.Add(absentPause), Silent
	case !rules.Quota && o.behind():
		return now.Add(behindPause), Silent
	case o.has(hardPin):
		return 0, HardPinned
	case !o.has(complete):
		return 0, Unfinished
	case o.copying():
		return 0, Copying
	case o.leaseEnd() > now:
		return o.leaseEnd(), Leased
	case o.has(softPin) && !rules.Soft:
		return o.rest().pinEnd, SoftPinned
	case !t.SaveOnEvict && !rules.Probed && o.since.Add(SavePatience) > now && o.unsaved():
		return o.since.Add(SavePatience), Probed
	case o.probeEnd() > now && !rules.Probed:
		return o.probeEnd(), Probed
	case rules.Seq != 0 && o.rank() != rules.Seq:
		return 0, Moved
	case t.SaveOnEvict && rules.Save && o.unsaved():
		return 0, Unsaved
	}
	return 0, Done
}
