package arena

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// maxSpace is how much of a space is handed out at most, in bytes. It keeps the totals of offsets,
// sizes and alignments within 64 bits, and offsets in what a node has for them.
const maxSpace = 1 << 60

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
	runs      runs
	extents   slotindex.Split // live nodes by offset
	live      uint64
	requested uint64
	reserved  uint64
}

func newSpace(cfg Config, s alloc.Space, seed uint64) *space {
	g := cfg.granules()
	limit := min(s.Size, maxSpace) &^ (g.fine - 1)
	return &space{cfg: cfg, granules: g, id: s.ID, size: s.Size, limit: limit, ranges: newRanges(limit, seed), classes: newClasses(seed), runs: runs{longest: cfg.ArenaBytes}}
}

// alloc returns the offset of a new extent; false when nothing fits. size is at least 1, align a
// power of two.
func (s *space) alloc(size, align uint64) (off uint64, ok bool) {
	if size > s.limit || s.ranges.nodes.full() {
		return 0, false
	}
	s.ranges.byOffset = nil
	slot := s.granules.slot(size)
	c := s.classes.find(slot)
	if c != 0 {
		if off, ok = s.fromOpen(c, size, align); ok {
			return off, true
		}
	}
	if slot > s.limit || s.reserved > s.limit-slot {
		return 0, false // Runs cannot satisfy it either.
	}
	i := s.place(c, slot, align)
	if i == 0 {
		i = s.scrape(slot, align)
	}
	switch {
	case i == 0:
		return 0, false
	case s.ranges.nodes.at(i).kind() == row:
		return s.fromOpen(c, size, align)
	}
	return s.enter(i, c, size), true
}

// multiple is up to how many slots a free range may have to count as left by extents of the same
// class.
const multiple = 8

// place finds and cuts out a slot, or a new run of its class of which the first slot is aligned, in
// the order that the package comment gives. c is the class of the slot, 0 when it has no extents
// yet.
func (s *space) place(c uint32, slot, align uint64) uint32 {
	r := &s.ranges
	i, off := r.fit(slot, align)
	var found uint64
	if i != 0 {
		found = r.nodes.size(r.nodes.at(i))
	}
	if c != 0 {
		if found != slot {
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
	}
	if found != slot && s.canShed() && r.bySize.largest() < s.cfg.ArenaBytes {
		s.shedSome()
		i, off = r.fit(slot, align)
	}
	if i == 0 {
		return 0
	}
	n := s.slots(c, slot, r.nodes.end(r.nodes.at(i))-off)
	if n == 1 {
		return r.carve(i, off, slot, live)
	}
	i = r.carve(i, off, n*slot, row)
	s.addRun(i, c, n, 1<<(n-1)<<1-1, nil)
	return i
}

// slots returns how many slots of a class to cut at once out of a range of free bytes: 1, or a
// whole run for one of the common classes. The free slots of a run do not merge with their
// neighbours, but many classes with few extents each depend on such merging.
func (s *space) slots(c uint32, slot, free uint64) uint64 {
	if c == 0 || s.classes.all[c].live < max(maxRun, s.live/common) {
		return 1
	}
	if n := min(s.cfg.ArenaBytes/slot, free/slot, maxRun); n >= minRun {
		return n
	}
	return 1
}

// common sets the share of a common class: at least one of so many extents of a space.
const common = 64

// fromArena takes the first slots of the class's arena; 0 when it has none, or its first slot is
// not aligned.
func (s *space) fromArena(c uint32, slot, align uint64) uint32 {
	a := s.classes.all[c].arena
	if a == 0 {
		return 0
	}
	n := s.ranges.nodes.at(a)
	off, free := n.off(), s.ranges.nodes.size(n)
	if off&(align-1) != 0 {
		return 0
	}
	count, k := s.slots(c, slot, free), live
	if count > 1 {
		k = row
	}
	if count*slot == free {
		s.classes.clearArena(c)
		n.set(off, k)
	} else {
		n.set(off+count*slot, rest)
		a = s.ranges.nodes.insertBefore(a, off, k)
	}
	if k == row {
		s.addRun(a, c, count, 1<<(count-1)<<1-1, nil)
	}
	return a
}

// newArena gives a class without an arena one of as many slots as it has live extents, within the
// configured size; false where that is one slot or the space has no free range for it.
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
	a := s.ranges.carve(i, off, slots*slot, rest)
	s.ranges.nodes.at(a).a = c
	s.classes.setArena(c, a)
	return true
}

// enter makes a cut out slot a live extent and returns its offset. c is its class, 0 when there is
// none yet.
func (s *space) enter(i, c uint32, size uint64) uint64 {
	slot := s.granules.slot(size)
	if c == 0 {
		c = s.classes.add(slot)
	}
	s.enlist(i, c, uint32(slot-size))
	s.joined(c, size)
	return s.ranges.nodes.at(i).off()
}

// enlist makes a node of kind live known, for an extent that is so much smaller than its slot.
func (s *space) enlist(i, c, short uint32) {
	n := s.ranges.nodes.at(i)
	n.a, n.b = c, short
	s.extents.Add(slotindex.Mix(n.off()), i, func(i uint32) uint64 { return slotindex.Mix(s.ranges.nodes.at(i).off()) })
}

// joined counts an extent that a class got.
func (s *space) joined(c uint32, size uint64) {
	s.classes.all[c].live++
	s.live++
	s.requested += size
	s.reserved += s.classes.all[c].slot
}

// left counts an extent that a class lost, and gives up the arena of a class without extents.
func (s *space) left(c uint32, size uint64) {
	s.live--
	s.requested -= size
	s.reserved -= s.classes.all[c].slot
	if arena := s.classes.leave(c); arena != 0 {
		s.release(arena)
	}
}

// find returns the live node at an offset, 0 where there is none.
func (s *space) find(off uint64) uint32 {
	return s.extents.Find(slotindex.Mix(off), func(i uint32) bool { return s.ranges.nodes.at(i).off() == off })
}

// free gives an extent back; false when it is not live.
func (s *space) free(off, size uint64) bool {
	if size == 0 || size > s.limit {
		return false
	}
	if s.runs.used > 0 {
		slot := s.granules.slot(size)
		if c := s.classes.find(slot); c != 0 && s.classes.all[c].runs > 0 {
			if i := s.runs.find(slot, off); i != 0 {
				return s.freeSlot(i, off, size)
			}
		}
	}
	i := s.find(off)
	if i == 0 {
		return false
	}
	n := s.ranges.nodes.at(i)
	c := n.a
	if s.classes.all[c].slot-uint64(n.b) != size {
		return false
	}
	s.extents.Remove(slotindex.Mix(off), i)
	s.release(i)
	s.left(c, size)
	return true
}

func (s *space) stats() alloc.Stats {
	return alloc.Stats{Size: s.size, Requested: s.requested, Reserved: s.reserved, Extents: s.live, LargestFree: s.granules.within(s.largest())}
}

// verdict is the outcome of a reservation.
type verdict uint8

const (
	reserved verdict = iota
	overlaps
	outside
	impossible
)

// take makes exactly [off, off+size) a live extent.
func (s *space) take(off, size uint64) verdict {
	switch {
	case size > s.size || off > s.size-size:
		return outside
	case size == 0, off%s.granules.fine != 0, size > s.limit, s.granules.slot(size) > s.limit, off > s.limit-s.granules.slot(size),
		s.ranges.nodes.full():
		return impossible
	}
	slot := s.granules.slot(size)
	s.giveUpAll()
	s.indexByOffset()
	r := &s.ranges
	t := r.byOffset.floor(r.byOffset.root, off)
	if t == 0 {
		return overlaps
	}
	i := r.byOffset.nodes[t].value
	if end := r.nodes.end(r.nodes.at(i)); off > end || end-off < slot {
		return overlaps
	}
	s.enter(r.carve(i, off, slot, live), s.classes.find(slot), size)
	return reserved
}

// indexByOffset makes the index of free ranges by offset, unless there is one.
func (s *space) indexByOffset() {
	r := &s.ranges
	if r.byOffset != nil {
		return
	}
	t := tree{forest: newForest(r.bySize.seed)}
	for i := r.nodes.at(0).next; i != 0; i = r.nodes.at(i).next {
		if n := r.nodes.at(i); n.kind() == hole {
			*t.insert(&t.root, n.off()) = i
		}
	}
	r.byOffset = &t
}
