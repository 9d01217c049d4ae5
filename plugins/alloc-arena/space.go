package arena

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/slotindex"
)

// maxSpace is how much of a space is handed out at most, in bytes. It keeps sums of
// offsets, sizes and alignments within 64 bits, and offsets in what a node has for them.
const maxSpace = 1 << 61

// space is one space with its lock.
type space struct {
	cfg      Config
	granules granules
	id       alloc.SpaceID
	size     uint64 // as it was added
	limit    uint64 // what is handed out: size in whole granules

	mu        sync.Mutex
	ranges    ranges
	classes   classes
	extents   slotindex.Split // live nodes by offset
	live      uint64
	requested uint64
	reserved  uint64
}

func newSpace(cfg Config, s alloc.Space, seed uint64) *space {
	g := cfg.granules()
	limit := min(s.Size, maxSpace) &^ (g.fine - 1)
	return &space{cfg: cfg, granules: g, id: s.ID, size: s.Size, limit: limit, ranges: newRanges(limit, seed), classes: newClasses()}
}

// alloc returns the offset of a new extent; false when nothing fits. size is at least 1,
// align a power of two.
func (s *space) alloc(size, align uint64) (off uint64, ok bool) {
	if size > s.limit || s.ranges.nodes.full() {
		return 0, false
	}
	s.ranges.byOffset = nil
	slot := s.granules.slot(size)
	i := s.place(s.classes.bySlot[slot], slot, align)
	if i == 0 && len(s.classes.arenas) > 0 {
		s.giveUpArenas()
		i = s.place(0, slot, align)
	}
	if i == 0 {
		return 0, false
	}
	s.enter(i, size)
	return s.ranges.nodes.at(i).off(), true
}

// multiple is up to how many slots a free range may have to count as left by extents of
// the same class.
const multiple = 8

// place finds and cuts out a slot, in the order that the package comment gives. c is the
// class of the slot, 0 when it has no extents yet.
func (s *space) place(c uint32, slot, align uint64) uint32 {
	r := &s.ranges
	i, off := r.fit(slot, align)
	var found uint64
	if i != 0 {
		found = r.nodes.size(r.nodes.at(i))
	}
	if c != 0 && found != slot {
		if n := s.fromArena(c, slot, align); n != 0 {
			return n
		}
		if i != 0 && (found > multiple*slot || found%slot != 0) && s.newArena(c, slot) {
			if n := s.fromArena(c, slot, align); n != 0 {
				return n
			}
			i, off = r.fit(slot, align)
		}
	}
	if i == 0 {
		return 0
	}
	return r.carve(i, off, slot, live)
}

// fromArena takes the first slot of the class's arena; 0 when it has none, or its first
// slot is not aligned.
func (s *space) fromArena(c uint32, slot, align uint64) uint32 {
	a := s.classes.all[c].arena
	if a == 0 {
		return 0
	}
	n := s.ranges.nodes.at(a)
	off := n.off()
	if off&(align-1) != 0 {
		return 0
	}
	if s.ranges.nodes.size(n) == slot {
		s.classes.clearArena(c)
		n.set(off, live)
		return a
	}
	n.set(off+slot, spare)
	return s.ranges.nodes.insertBefore(a, off, live)
}

// newArena gives a class without an arena one of as many slots as it has live extents,
// within the configured size; false where that is one slot or the space has no free range
// for it.
func (s *space) newArena(c uint32, slot uint64) bool {
	if s.classes.all[c].arena != 0 {
		return false
	}
	slots := min(s.classes.all[c].live, s.cfg.ArenaBytes/slot)
	if slots < 2 {
		return false
	}
	i, off := s.ranges.fit(slots*slot, 1)
	if i == 0 {
		return false
	}
	a := s.ranges.carve(i, off, slots*slot, spare)
	s.ranges.nodes.at(a).a = c
	s.classes.setArena(c, a)
	return true
}

// giveUpArenas returns what is left of all arenas to the free ranges.
func (s *space) giveUpArenas() {
	for n := len(s.classes.arenas); n > 0; n-- {
		c := s.classes.arenas[n-1]
		a := s.classes.all[c].arena
		s.classes.clearArena(c)
		s.ranges.release(a)
	}
}

// enter makes a cut out slot a live extent of the given size.
func (s *space) enter(i uint32, size uint64) {
	n, slot := s.ranges.nodes.at(i), s.granules.slot(size)
	n.a, n.b = s.classes.join(slot), uint32(slot-size)
	s.extents.Add(slotindex.Mix(n.off()), i, func(i uint32) uint64 { return slotindex.Mix(s.ranges.nodes.at(i).off()) })
	s.live++
	s.requested += size
	s.reserved += slot
}

// find returns the live node at an offset, 0 where there is none.
func (s *space) find(off uint64) uint32 {
	return s.extents.Find(slotindex.Mix(off), func(i uint32) bool { return s.ranges.nodes.at(i).off() == off })
}

// free gives an extent back; false when it is not live.
func (s *space) free(off, size uint64) bool {
	i := s.find(off)
	if i == 0 {
		return false
	}
	n := s.ranges.nodes.at(i)
	slot := s.classes.all[n.a].slot
	if slot-uint64(n.b) != size {
		return false
	}
	s.extents.Remove(slotindex.Mix(off), i)
	s.live--
	s.requested -= size
	s.reserved -= slot
	left := s.classes.leave(n.a)
	s.ranges.release(i)
	if left != 0 {
		s.ranges.release(left)
	}
	return true
}

func (s *space) stats() alloc.Stats {
	largest := s.ranges.largest()
	for _, c := range s.classes.arenas {
		largest = max(largest, s.ranges.nodes.size(s.ranges.nodes.at(s.classes.all[c].arena)))
	}
	return alloc.Stats{Size: s.size, Requested: s.requested, Reserved: s.reserved, Extents: s.live, LargestFree: s.granules.within(largest)}
}
