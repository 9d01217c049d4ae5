// Package objects is the master's table of objects: which keys exist, where their copies lie,
// which clients are writing them, and until when readers may rely on them.
//
// The table is divided into shards by the hash of the key, each with its own lock. An operation
// concerns one key and holds one lock for well under a microsecond; no operation calls out of the
// package while it holds a lock. Everything is safe for concurrent use.
//
// The table owns no memory of the pool. Operations that remove an object return its extents to
// the caller. The caller frees them after the lock is released.
//
// The table notes changes of objects as events for the eviction policy, numbered in the order in
// which they happened. Drain returns them.
package objects

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Shards is the number of shards.
const Shards = 1 << shardBits

const shardBits = 32 - slotBits

// Table is the table of objects. Make one with New.
type Table struct {
	// Wall, where set, gives the time of day of an instant, for the end of soft pins in ledgers. It is set before
	// the table is used.
	Wall func(lease.Instant) time.Time
	// SaveOnEvict says that nodes copy to their storage tiers what eviction chooses, and not what is put. It is set before the
	// table is used.
	SaveOnEvict bool
	// Promoted, where set, is called when an object of that many bytes came from a storage tier into memory, or did not. It runs
	// under a lock and must be quick. It is set before the table is used.
	Promoted func(how Outcome, size uint64)
	// Writers are those of unfinished puts, with what these occupy.
	Writers *segments.Writers

	seed     maphash.Seed
	copies   atomic.Uint64 // the last number of a copy or of a part of one
	seq      atomic.Uint64
	count    atomic.Int64
	readable atomic.Int64
	away     atomic.Int64 // of them, those without a copy in memory
	saved    atomic.Int64 // of them, those with a copy on a storage tier
	soft     atomic.Int64
	writing  atomic.Int64
	pinned   atomic.Int64
	promotes atomic.Int64 // copies in progress from storage tiers into memory

	clients clients
	copiers copiers
	groups  groups
	homes   *homes
	owners  owners
	events  eventLog
	shards  [Shards]shard
}

// shard holds the objects of one part of the hash space. The maps hold slots.
type shard struct {
	mu    sync.Mutex
	slots slots
	// unfinished holds the entries being written, each with its writer, so that a search for
	// overdue ones need not walk the table.
	unfinished map[uint32]*segments.Writer
	soft       map[uint32]struct{} // softly pinned
	firstPin   lease.Instant       // none of them ends before
	copying    map[uint32]struct{}
	events     []Event
	_          [64]byte // keeps two shards off one cache line
}

// New returns an empty table.
func New() *Table {
	t := &Table{Writers: segments.NewWriters(), seed: maphash.MakeSeed(), clients: newClients(), copiers: newCopiers(), groups: newGroups()}
	homes, hash := newHomes(), t.print
	t.homes = homes
	for i := range t.shards {
		s := &t.shards[i]
		s.slots.homes, s.slots.hash = homes, hash
		s.unfinished, s.soft, s.copying = map[uint32]*segments.Writer{}, map[uint32]struct{}{}, map[uint32]struct{}{}
	}
	return t
}

// BeginCall keeps the numbers of the next copies apart from those of other calls; see model.CallGap.
func (t *Table) BeginCall() { t.copies.Add(model.CallGap) }

// NumberFrom makes the numbers of copies begin above n, if they are not beyond it.
func (t *Table) NumberFrom(n uint64) {
	for have := t.copies.Load(); have < n && !t.copies.CompareAndSwap(have, n); have = t.copies.Load() {
	}
}

// Reserve makes space for about n more objects, so that entering them does not grow the indexes of the shards again and again.
func (t *Table) Reserve(n int) {
	each := n / Shards
	if each == 0 {
		return
	}
	each += 4 * int(math.Sqrt(float64(each))) // Shards differ.
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.slots.reserve(each)
		s.mu.Unlock()
	}
}

// Len returns how many objects there are, unfinished ones included.
func (t *Table) Len() int { return int(t.count.Load()) }

// Readable returns how many objects have been written completely.
func (t *Table) Readable() int { return int(t.readable.Load()) }

// InMemory returns how many readable objects have a copy in memory, and Stored how many have one on a storage tier.
func (t *Table) InMemory() int { return max(0, int(t.readable.Load()-t.away.Load())) }

// Stored is the counterpart of InMemory.
func (t *Table) Stored() int { return int(t.saved.Load()) }

// Promoting returns how many objects come from storage tiers into memory now.
func (t *Table) Promoting() int { return int(t.promotes.Load()) }

// SoftPinned returns how many readable objects are softly pinned.
func (t *Table) SoftPinned() int { return int(t.soft.Load()) }

// HardPinnedBytes returns the bytes of readable objects that are never evicted, counting one copy
// of each.
func (t *Table) HardPinnedBytes() uint64 { return uint64(max(t.pinned.Load(), 0)) }

// WritingBytes returns what unfinished puts occupy.
func (t *Table) WritingBytes() uint64 { return uint64(max(t.writing.Load(), 0)) }

// Print returns the fingerprint of a key: a hash that is never 0 and never changes for the lifetime
// of the table.
func (t *Table) Print(key string) uint64 {
	return max(maphash.String(t.seed, key), 1)
}

// print is Print of a key where it is stored.
func (t *Table) print(key []byte) uint64 { return max(maphash.Bytes(t.seed, key), 1) }

// open locks the shard of a key and returns its object, or nil if there is none.
func (t *Table) open(key string) (i int, s *shard, o object) { return t.openAt(key, t.Print(key)) }

// openAt is open of a key with its fingerprint.
func (t *Table) openAt(key string, h uint64) (i int, s *shard, o object) {
	i = int(h & (Shards - 1))
	s = &t.shards[i]
	s.mu.Lock()
	return i, s, s.slots.find(key, h)
}

// An ID consists of the generation of a slot, the slot, and the shard. It repeats after 2^32 uses
// of one slot.
func idOf(shard int, o object) evict.ID {
	return evict.ID(uint64(o.generation)<<32 | uint64(o.slot())<<shardBits | uint64(shard))
}

func shardOf(id evict.ID) int { return int(id & (Shards - 1)) }

// byID locks the shard of an ID and returns its object, or nil if it no longer exists.
func (t *Table) byID(id evict.ID) (i int, s *shard, o object) {
	i = shardOf(id)
	s = &t.shards[i]
	s.mu.Lock()
	slot := uint32(id>>shardBits) & (1<<slotBits - 1)
	if slot >= s.slots.used {
		return i, s, object{}
	}
	if o = s.slots.at(slot); o.generation != uint32(id>>32) || !o.taken() {
		return i, s, object{}
	}
	return i, s, o
}

// unlink removes an object from its shard. The caller holds the lock of the shard. The policy
// receives a removal if it knows the object, unless it proposed the object itself.
func (t *Table) unlink(i int, s *shard, o object, tell bool) {
	t.count.Add(-1)
	if o.has(complete) {
		t.withdraw(i, s, o, tell)
	} else {
		t.unwritten(s, o)
	}
	t.endTask(s, o, Missing)
	if m := o.rest(); m != nil && m.group != nil {
		t.groups.leave(m.group, idOf(i, o))
	}
	s.slots.remove(o)
}

// written enters an object among those that are being written. The caller holds the lock of the shard.
func (t *Table) written(s *shard, o object, by Client) {
	w := by.account
	if w == nil {
		w = t.Writers.Enter(by.id)
		defer t.Writers.Leave(w)
	}
	s.unfinished[o.slot()] = w
	t.writing.Add(int64(o.footprint()))
	w.Add(1, int64(o.footprint()))
}

// unwritten is the counterpart of written.
func (t *Table) unwritten(s *shard, o object) {
	w := s.unfinished[o.slot()]
	delete(s.unfinished, o.slot())
	t.writing.Add(-int64(o.footprint()))
	w.Add(-1, -int64(o.footprint()))
}

// regrown notes that the copies of an object that is being written take more bytes, or less.
func (t *Table) regrown(s *shard, o object, by int64) {
	t.writing.Add(by)
	s.unfinished[o.slot()].Add(0, by)
}

// publish makes a written object visible to readers, and to the policy unless the object is pinned.
func (t *Table) publish(i int, s *shard, o object, parent evict.ID) {
	o.set(complete)
	t.readable.Add(1)
	t.recount(o)
	if o.has(hardPin) {
		t.pinned.Add(int64(o.size()))
	} else {
		t.owners.add(o, idOf(i, o))
	}
	if o.listed() {
		o.setRank(t.note(i, s, evict.Event{Op: evict.Insert, ID: idOf(i, o), Size: o.footprint(), Parent: parent, Fingerprint: t.print(o.keyBytes())}))
	}
}

// withdraw is the counterpart of publish.
func (t *Table) withdraw(i int, s *shard, o object, tell bool) {
	tell = tell && o.listed()
	o.clear(complete | dropped)
	t.readable.Add(-1)
	t.recount(o)
	if o.has(hardPin) {
		t.pinned.Add(-int64(o.size()))
	} else {
		t.owners.remove(o, idOf(i, o))
	}
	switch {
	case o.has(softPin):
		o.clear(softPin)
		delete(s.soft, o.slot())
		t.soft.Add(-1)
	case tell:
		t.note(i, s, evict.Event{Op: evict.Remove, ID: idOf(i, o)})
	}
}

// recount counts an object as one in memory, on a storage tier, both or neither.
func (t *Table) recount(o object) {
	count := func(as flags, is bool, n *atomic.Int64) {
		switch {
		case is && !o.has(as):
			o.set(as)
			n.Add(1)
		case !is && o.has(as):
			o.clear(as)
			n.Add(-1)
		}
	}
	count(away, o.has(complete) && !o.inMemory(), &t.away)
	if o.has(saved) && o.has(complete) && !o.onTiers() {
		o.set(dropped)
	}
	count(saved, o.has(complete) && o.onTiers(), &t.saved)
}

// Current reports whether a key is readable, and its group. It does not count as an access.
func (t *Table) Current(key string) (group string, readable bool) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if o.none() || !o.has(complete) || !o.alive() {
		return "", false
	}
	return o.group(), true
}
