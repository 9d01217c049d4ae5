package objects

import (
	"math"
	"runtime"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
)

// Cursor is a position in a walk through the table. A walk begins with 0 and is over when a step
// returns 0. It visits each object that is in the table from the first step to the last exactly once. Of objects that come or go
// meanwhile it visits some, and each of them once at most: a key whose object is replaced may come twice, or not at all.
type Cursor uint64

// walkPiece is the number of slots that one step of a walk visits: few enough that no step holds a
// lock for long.
const walkPiece = 512

// keyHint is for how many bytes a key Keys makes space at first.
const keyHint = 64

// walk calls do for each object of one step with its shard locked. do may remove the object.
func (t *Table) walk(at Cursor, do func(i int, s *shard, o object)) Cursor {
	runtime.Gosched() // A walk has many steps, and calls that are ready go first.
	i, slot, left := int(at>>32), uint32(at), uint32(walkPiece)
	for ; i < Shards; i, slot = i+1, 0 {
		s := &t.shards[i]
		s.mu.Lock()
		end := s.slots.some(slot, left, func(o object) { do(i, s, o) })
		used := s.slots.used
		s.mu.Unlock()
		if end < used {
			return Cursor(i)<<32 | Cursor(end)
		}
		if left -= end - slot; left == 0 && i+1 < Shards {
			return Cursor(i+1) << 32
		}
	}
	return 0
}

// some calls do for the objects in up to n slots, beginning at one, and returns the slot behind
// them.
func (t *slots) some(from, n uint32, do func(object)) (end uint32) {
	end = min(from+n, t.used)
	for slot := from; slot < end; slot++ {
		if o := t.at(slot); o.taken() {
			do(o)
		}
	}
	return end
}

// Keys appends the readable keys of one step of a walk to dst. With absent it also appends those whose segments are
// absent. The keys share memory: clone those that are kept.
func (t *Table) Keys(at Cursor, absent bool, dst []string) ([]string, Cursor) {
	var lengths [walkPiece]uint16
	var text []byte
	n := 0
	next := t.walk(at, func(_ int, _ *shard, o object) {
		if !o.has(complete) || !o.alive() && !(absent && o.mounted()) {
			return
		}
		key := o.keyBytes()
		if len(key) > math.MaxUint16 {
			dst = append(dst, string(key))
			return
		}
		if text == nil {
			text = make([]byte, 0, walkPiece*keyHint)
		}
		text = append(text, key...)
		lengths[n] = uint16(len(key))
		n++
	})
	keys := string(text)
	for _, length := range lengths[:n] {
		dst, keys = append(dst, keys[:length]), keys[length:]
	}
	return dst, next
}

// Writing calls do for each extent of unfinished puts. do runs under a lock and must be quick.
func (t *Table) Writing(do func(segments.Extent)) {
	var extents []segments.Extent
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		extents = extents[:0]
		for slot := range s.unfinished {
			extents = s.slots.at(slot).extents(extents)
		}
		s.mu.Unlock()
		for _, e := range extents {
			do(e)
		}
	}
}

// Member is an object with its group.
type Member struct{ Key, Group string }

// Lying appends the complete objects of one step of a walk that have a copy on a segment.
func (t *Table) Lying(at Cursor, seg *segments.Segment, dst []Member) ([]Member, Cursor) {
	next := t.walk(at, func(_ int, _ *shard, o object) {
		if o.has(complete) && slices.ContainsFunc(o.extents(nil), func(e segments.Extent) bool { return e.Seg == seg }) {
			dst = append(dst, Member{o.key(), o.group()})
		}
	})
	return dst, next
}
