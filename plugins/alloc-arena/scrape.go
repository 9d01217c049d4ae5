package arena

import (
	"math/bits"
)

// scrape cuts a slot out of memory that classes hold and do not use. It gives up their arenas, and
// then the free slots of runs that form a large enough range. It returns 0 if that is not enough.
func (s *space) scrape(slot, align uint64) uint32 {
	if len(s.classes.sets[withArena]) == 0 && !s.canShed() {
		return 0
	}
	s.giveUpArenas()
	i, off := s.ranges.fit(slot, align)
	if i == 0 && s.canShed() && s.dig(slot, align) {
		i, off = s.ranges.fit(slot, align)
	}
	if i == 0 {
		return 0
	}
	return s.ranges.carve(i, off, slot, live)
}

// giveUpArenas returns what is left of all arenas to the free ranges.
func (s *space) giveUpArenas() {
	for n := len(s.classes.sets[withArena]); n > 0; n-- {
		c := s.classes.sets[withArena][n-1]
		a := s.classes.all[c].arena
		s.classes.clearArena(c)
		s.release(a)
	}
}

// giveUpAll returns all that is free to the free ranges.
func (s *space) giveUpAll() {
	s.giveUpArenas()
	s.shedAll()
}

// atOnce is how many runs give up their free slots for one request that no free range suits
// exactly. More at once would not fill a space better, and hold up all others.
const atOnce = 4

// shedSome returns the free slots of a few runs to the free ranges.
func (s *space) shedSome() {
	for n := 0; n < atOnce && s.canShed(); n++ {
		s.shedOne()
	}
}

// shedAll returns the free slots of all runs to the free ranges.
func (s *space) shedAll() {
	for s.canShed() {
		s.shedOne()
	}
}

func (s *space) shedOne() {
	open := s.classes.sets[withOpen]
	s.shed(s.classes.all[open[len(open)-1]].open)
}

// canShed reports whether there is an open run, and indices for the nodes that may come of it.
func (s *space) canShed() bool {
	return len(s.classes.sets[withOpen]) > 0 && s.ranges.nodes.used <= maxNodes-2*maxRun
}

// largest returns the longest range that an allocation could be given, without looking at more than
// the first open runs of each class.
func (s *space) largest() uint64 {
	n := s.ranges.bySize.largest()
	for _, c := range s.classes.sets[withArena] {
		n = max(n, s.ranges.nodes.size(s.ranges.nodes.at(s.classes.all[c].arena)))
	}
	for _, c := range s.classes.sets[withOpen] {
		i := s.classes.all[c].open
		for visit := 0; i != 0 && visit < tries; visit++ {
			r := s.runs.at(i)
			n = max(n, r.longest()*r.slot)
			i = r.next
		}
	}
	return n
}

// A request that no free range satisfies may fit into the free slots of a run, or of two
// neighbouring runs, together with a free range beside them. To examine all runs for each request
// would take too long, so a run remembers the longest such range of its last examination. It
// forgets the length when something is freed in the run or beside it.

// reach returns the form in which a run remembers a length.
func (s *space) reach(length uint64) uint32 { return uint32(min(length/s.granules.fine, anyReach)) }

// release makes a node free and returns how long it is then.
func (s *space) release(i uint32) uint64 {
	length := s.ranges.release(i)
	if s.runs.used > 0 {
		n := s.ranges.nodes.at(i)
		s.forgetBeside(n.prev)
		s.forgetBeside(n.next)
	}
	return length
}

func (s *space) forgetBeside(node uint32) {
	if n := s.ranges.nodes.at(node); n.kind() == row && s.runs.at(n.a).free != 0 {
		s.runs.reach.forget(n.a)
	}
}

// dig gives up the free slots of a run, and of its neighbour if it takes both, that form a large
// enough free range. It returns false if no runs do.
func (s *space) dig(size, align uint64) bool {
	top := len(s.runs.reach) - 1
	_, found := s.digIn(top, 0, uint32(len(s.runs.reach[top])), size, align)
	return found
}

// digIn does it among the runs that some entries of a level stand for, and returns the largest of
// these when it found nothing.
func (s *space) digIn(level int, from, to uint32, size, align uint64) (most uint32, found bool) {
	ask, entries := s.reach(size), s.runs.reach[level]
	for i := from; i < min(to, uint32(len(entries))); i++ {
		if entries[i] >= ask {
			if level == 0 {
				var beside uint32
				found, beside, entries[i] = s.look(i, size, align)
				if found {
					s.shed(i)
					if beside != 0 {
						s.shed(beside)
					}
					return 0, true
				}
			} else if now, found := s.digIn(level-1, i<<reachBits, (i+1)<<reachBits, size, align); found {
				return 0, true
			} else {
				entries[i] = now
			}
		}
		most = max(most, entries[i])
	}
	return most, false
}

// look reports whether a run would form a large enough range if it gave up its free slots, together
// with the run beside unless that is 0. It also returns the reach of the run.
func (s *space) look(i uint32, size, align uint64) (found bool, beside, reach uint32) {
	r := s.runs.at(i)
	if r.free == 0 {
		return false, 0, 0 // The run was filled, or dropped.
	}
	longest := r.longest() * r.slot
	found = longest >= size && r.within(size, align)
	if n := r.first(); n > 0 {
		begin, other := s.freeBefore(r.node)
		end := r.off + n*r.slot
		longest = max(longest, end-begin)
		if _, ok := within(begin, end, size, align); ok && !found {
			found, beside = true, other
		}
	}
	if n := r.last(); n > 0 {
		end, other := s.freeAfter(r.node)
		begin := r.off + (uint64(r.slots)-n)*r.slot
		longest = max(longest, end-begin)
		if _, ok := within(begin, end, size, align); ok && !found {
			found, beside = true, other
		}
	}
	return found, beside, s.reach(longest)
}

// freeBefore returns the beginning of the free range in front of a run's node, and the run to which
// a part of it belongs, 0 for none.
func (s *space) freeBefore(node uint32) (begin uint64, run uint32) {
	ns := &s.ranges.nodes
	n := ns.at(node)
	if p := ns.at(n.prev); p.kind() == hole {
		n = p
	}
	if p := ns.at(n.prev); p.kind() == row {
		if r := s.runs.at(p.a); r.last() > 0 {
			return n.off() - r.last()*r.slot, p.a
		}
	}
	return n.off(), 0
}

// freeAfter returns the end of the free range behind a run's node, and the run to which a part of
// it belongs, 0 for none.
func (s *space) freeAfter(node uint32) (end uint64, run uint32) {
	ns := &s.ranges.nodes
	n := ns.at(ns.at(node).next)
	if n.kind() == hole {
		n = ns.at(n.next)
	}
	if n.kind() == row {
		if r := s.runs.at(n.a); r.first() > 0 {
			return n.off() + r.first()*r.slot, n.a
		}
	}
	return n.off(), 0
}

// first returns how many slots are free at the beginning of a run.
func (r *run) first() uint64 { return uint64(bits.TrailingZeros64(^r.free)) }

// last returns how many slots are free at the end of a run.
func (r *run) last() uint64 { return uint64(bits.LeadingZeros64(^(r.free << (maxRun - r.slots)))) }

// within reports whether size bytes fit in free slots at a multiple of align.
func (r *run) within(size, align uint64) bool {
	begin := r.off
	for free := r.free; free != 0; {
		taken := bits.TrailingZeros64(free)
		free >>= taken
		begin += uint64(taken) * r.slot
		n := bits.TrailingZeros64(^free)
		end := begin + uint64(n)*r.slot
		if _, ok := within(begin, end, size, align); ok {
			return true
		}
		free >>= n
		begin = end
	}
	return false
}
