package objects

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Shards is the number of shards.
const Shards = 1 << shardBits

const shardBits = 10

// Table is the table of objects. Make one with New.
type Table struct {
	seed     maphash.Seed
	ids      atomic.Uint64
	copies   atomic.Uint64
	seq      atomic.Uint64
	count    atomic.Int64
	readable atomic.Int64
	writing  atomic.Int64

	journal journal
	shards  [Shards]shard
}

type shard struct {
	mu    sync.Mutex
	byKey map[string]*object
	byID  map[evict.ID]*object
	// unfinished are the entries being written, so that looking for overdue ones does not
	// walk everything.
	unfinished map[evict.ID]writing
	events     []Event
	_          [64]byte // keeps two shards off one cache line
}

// New returns an empty table.
func New() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		s := &t.shards[i]
		s.byKey = map[string]*object{}
		s.byID = map[evict.ID]*object{}
		s.unfinished = map[evict.ID]writing{}
	}
	return t
}

// Len returns how many objects there are, unfinished ones included.
func (t *Table) Len() int { return int(t.count.Load()) }

// Readable returns how many objects have been written completely.
func (t *Table) Readable() int { return int(t.readable.Load()) }

// WritingBytes returns what unfinished puts occupy.
func (t *Table) WritingBytes() uint64 { return uint64(max(t.writing.Load(), 0)) }

func (t *Table) index(key string) int {
	return int(maphash.String(t.seed, key) & (Shards - 1))
}

// newID numbers an object. The low bits name its shard; a number is never used twice.
func (t *Table) newID(shard int) evict.ID {
	return evict.ID(t.ids.Add(1)<<shardBits | uint64(shard))
}

func shardOf(id evict.ID) int { return int(id & (Shards - 1)) }

// writing is an entry being written, and the put that does it: the ID of the first copy
// that its writer was told of.
type writing struct {
	*object
	put uint64
}

// meant reports whether a caller who names a put, or 0 for any, means this one.
func (w writing) meant(put uint64) bool { return put == 0 || put == w.put }

// link puts an unfinished object into its shard, whose lock is held.
func (t *Table) link(s *shard, o *object, put uint64) {
	s.byKey[o.key] = o
	s.byID[o.id] = o
	s.unfinished[o.id] = writing{o, put}
	t.count.Add(1)
	t.writing.Add(int64(o.footprint()))
}

// unlink takes an object out of its shard, whose lock is held. Finished objects are taken
// back from the policy unless the policy itself proposed them.
func (t *Table) unlink(i int, s *shard, o *object, tell bool) {
	delete(s.byKey, o.key)
	delete(s.byID, o.id)
	t.count.Add(-1)
	if !o.complete {
		delete(s.unfinished, o.id)
		t.writing.Add(-int64(o.footprint()))
		return
	}
	t.readable.Add(-1)
	if tell && !o.pinned {
		t.note(i, s, evict.Event{Op: evict.Remove, ID: o.id})
	}
}
