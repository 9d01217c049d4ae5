package objects

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Extents appends every extent of one shard, 0 to Shards-1, that lies on a live segment.
func (t *Table) Extents(i int, dst []segments.Extent) []segments.Extent {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	head := len(dst)
	s.slots.each(func(o *object) { dst = o.extents(dst) })
	live := slices.DeleteFunc(dst[head:], func(e segments.Extent) bool { return !e.Seg.Alive() })
	return dst[:head+len(live)]
}

// Ranking returns an Insert for every object that the policy should know, least recently
// used first.
func (t *Table) Ranking() []evict.Event {
	all := make([]Event, 0, t.Readable())
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.slots.each(func(o *object) {
			if o.has(complete) && !o.has(hardPin|softPin) {
				all = append(all, Event{Seq: o.ranked, Event: evict.Event{
					Op: evict.Insert, ID: idOf(i, o), Size: o.footprint(), Fingerprint: t.Print(o.key),
				}})
			}
		})
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	out := make([]evict.Event, len(all))
	for i, e := range all {
		out[i] = e.Event
	}
	return out
}
