package objects

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Extents appends every extent of one step of a walk that lies on a live segment.
func (t *Table) Extents(at Cursor, dst []segments.Extent) ([]segments.Extent, Cursor) {
	head := len(dst)
	next := t.walk(at, func(_ int, _ *shard, o object) { dst = o.extents(dst) })
	live := slices.DeleteFunc(dst[head:], func(e segments.Extent) bool { return !e.Seg.Alive() })
	return dst[:head+len(live)], next
}

// Rank is the place of an object in the eviction order: the number of the event that moved
// it there.
type Rank struct {
	Seq uint64
	ID  evict.ID
}

// Ranking returns every object that the policy should know, least recently used first, 16
// bytes each. The events so far are part of it and forgotten; Drain hands out what comes
// after. The caller keeps Drain from running meanwhile.
func (t *Table) Ranking() []Rank {
	all := make([]Rank, 0, t.Readable())
	for i := range t.shards {
		all = t.rankShard(i, all)
	}
	sortRanks(all)
	return all
}

// sortRanks sorts by Seq. Numbers are spread evenly, more or less, so that parts of the list that fit a cache are made
// in one pass, and sorted one by one: that takes half the time of sorting the list.
func sortRanks(all []Rank) {
	const partBits = 12
	const parts = 1 << partBits
	if len(all) < 4*parts {
		slices.SortFunc(all, bySeq)
		return
	}
	lo, hi := all[0].Seq, all[0].Seq
	for i := range all {
		lo, hi = min(lo, all[i].Seq), max(hi, all[i].Seq)
	}
	shift := max(bits.Len64(hi-lo), partBits) - partBits
	var ends, next [parts]int
	for i := range all {
		ends[(all[i].Seq-lo)>>shift]++
	}
	for i, at := 0, 0; i < parts; i++ {
		next[i], at = at, at+ends[i]
		ends[i] = at
	}
	for i := range next {
		for next[i] < ends[i] {
			if part := (all[next[i]].Seq - lo) >> shift; int(part) == i {
				next[i]++
			} else {
				all[next[i]], all[next[part]] = all[next[part]], all[next[i]]
				next[part]++
			}
		}
	}
	from := 0
	for _, end := range ends {
		slices.SortFunc(all[from:end], bySeq)
		from = end
	}
}

func bySeq(a, b Rank) int { return cmp.Compare(a.Seq, b.Seq) }

// rankShard walks one shard without letting its lock go, since what it sees must end where
// the events that are left begin.
func (t *Table) rankShard(i int, all []Rank) []Rank {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.events[:0]
	s.slots.each(func(o object) {
		if o.listed() {
			all = append(all, Rank{o.rank(), idOf(i, o)})
		}
	})
	return all
}

// listed reports whether the policy should know an object.
func (o object) listed() bool { return o.has(complete) && !o.has(hardPin|softPin) && o.inMemory() }

// relist tells the policy that an object has come into memory, or has left it, since it was listed or not, and counts
// it so. The caller holds the lock of the shard.
func (t *Table) relist(i int, s *shard, o object, was bool) {
	t.recount(o)
	o.fold()
	switch now := o.listed(); {
	case now && !was:
		o.setRank(t.note(i, s, t.insert(idOf(i, o), o)))
	case was && !now:
		t.note(i, s, evict.Event{Op: evict.Remove, ID: idOf(i, o)})
	}
}

// Inserts appends the events that tell a policy of those objects, as far as they still exist.
// With anew each is removed first.
func (t *Table) Inserts(ranks []Rank, anew bool, dst []evict.Event) []evict.Event {
	for _, r := range ranks {
		_, s, o := t.byID(r.ID)
		if !o.none() && o.listed() {
			if anew {
				dst = append(dst, evict.Event{Op: evict.Remove, ID: r.ID})
			}
			dst = append(dst, t.insert(r.ID, o))
		}
		s.mu.Unlock()
	}
	return dst
}

func (t *Table) insert(id evict.ID, o object) evict.Event {
	return evict.Event{Op: evict.Insert, ID: id, Size: o.footprint(), Fingerprint: t.print(o.keyBytes())}
}
