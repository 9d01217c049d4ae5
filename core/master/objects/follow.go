package objects

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// This keeps the table of a master that follows another one: its objects come and go with the records of the
// ledgers, one copy at a time.

// Confirm makes an adopted object readable, whose put has ended since. f is what its ledger has.
func (t *Table) Confirm(id evict.ID, f *Found, now lease.Instant) {
	i, s, o := t.byID(id)
	defer s.mu.Unlock()
	if !o.none() && !o.has(complete) {
		t.adoptEnd(i, s, o, f, now)
	}
}

// Recommit has the ledger of a copy learn that the object is complete, as the ledgers of its other copies say.
func (t *Table) Recommit(id evict.ID, replica uint64) {
	_, s, o := t.byID(id)
	defer s.mu.Unlock()
	if o.none() || !o.has(complete) {
		return
	}
	copies := o.several()
	for j := range copies {
		if copies[j].id == replica {
			t.commitCopy(o, &copies[j])
		}
	}
}

// Withdraw takes out a copy that its ledger does not call readable any more, and the object with its last copy.
// What goes is in the bin.
func (t *Table) Withdraw(id evict.ID, number uint64, bin *Bin) {
	i, s, o := t.byID(id)
	defer s.mu.Unlock()
	if o.none() {
		return
	}
	copies := o.several()
	is := func(r replica) bool { return r.id == number }
	switch {
	case copies == nil && o.id == number, len(copies) == 1 && is(copies[0]):
		bin.whole(o, s.unfinished[o.slot()])
		t.unlink(i, s, o, true)
	case slices.ContainsFunc(copies, is):
		t.shed(i, s, o, bin, is)
	}
}

// Protect has readers of the master before rely on every object until an instant: that master may also have ended puts
// without the ledger's knowledge, and have had them read.
func (t *Table) Protect(until lease.Instant) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.slots.each(func(o object) { o.lease = max(o.lease, until) })
		s.mu.Unlock()
	}
}
