package arena

import "math/bits"

// addRun makes a node of kind row the run of n slots that it covers; free are the free ones.
func (s *space) addRun(node, c uint32, n, free uint64, short []uint16) uint32 {
	off, slot := s.ranges.nodes.at(node).off(), s.classes.all[c].slot
	r := run{free: free, off: off, slot: slot, class: c, node: node, slots: uint32(n)}
	copy(r.short[:], short)
	i := s.runs.add(r)
	s.ranges.nodes.at(node).a = i
	s.classes.all[c].runs++
	if free != 0 {
		s.openRun(i)
		s.runs.reach.forget(i)
	}
	return i
}

func (s *space) openRun(i uint32) {
	c := s.runs.at(i).class
	if s.classes.all[c].open == 0 {
		s.classes.enter(c, withOpen)
	}
	s.runs.link(&s.classes.all[c].open, i)
}

func (s *space) closeRun(i uint32) {
	c := s.runs.at(i).class
	s.runs.unlink(&s.classes.all[c].open, i)
	if s.classes.all[c].open == 0 {
		s.classes.exit(c, withOpen)
	}
}

// dropRun forgets an open run; its node remains.
func (s *space) dropRun(i uint32) {
	s.closeRun(i)
	s.classes.all[s.runs.at(i).class].runs--
	s.runs.drop(i)
}

// fromOpen makes the first free slot of a class's open runs a live extent and returns its offset;
// false when there is none, or none of the first run is aligned.
func (s *space) fromOpen(c uint32, size, align uint64) (off uint64, ok bool) {
	i := s.classes.all[c].open
	if i == 0 {
		return 0, false
	}
	r := s.runs.at(i)
	for free := r.free; free != 0; free &= free - 1 {
		at := uint64(bits.TrailingZeros64(free))
		if off = r.off + at*r.slot; off&(align-1) == 0 {
			r.free &^= 1 << at
			r.short[at%maxRun] = uint16(r.slot - size)
			if r.free == 0 {
				s.closeRun(i)
			}
			s.joined(c, size)
			return off, true
		}
	}
	return 0, false
}

// freeSlot gives back an extent of a run that covers its offset; false when it is not live.
func (s *space) freeSlot(i uint32, off, size uint64) bool {
	r := s.runs.at(i)
	at := (off - r.off) / r.slot
	if r.off+at*r.slot != off || r.free>>at&1 != 0 || uint64(r.short[at%maxRun]) != r.slot-size {
		return false
	}
	if r.free == 0 {
		s.openRun(i)
	}
	s.runs.reach.forget(i)
	c := r.class
	if r.free |= 1 << at; r.free == r.all() {
		node := r.node
		s.dropRun(i)
		s.release(node)
	}
	s.left(c, size)
	return true
}

// shed gives the free slots of an open run to the free ranges and returns the longest that came of
// it. What is live goes on in smaller runs, or one by one.
func (s *space) shed(i uint32) (longest uint64) {
	r := *s.runs.at(i)
	s.dropRun(i)
	ns := &s.ranges.nodes
	next := ns.at(r.node).next
	for end := uint64(r.slots); end > 0; {
		// The slots from begin to end are alike.
		free := r.free >> (end - 1) & 1
		alike := r.free ^ (free - 1) // ones where slots are like the last
		begin := end - uint64(bits.LeadingZeros64(^(alike << (maxRun - end))))
		node := r.node
		if begin > 0 {
			node = ns.insertBefore(next, r.off+begin*r.slot, row)
		}
		if free != 0 {
			longest = max(longest, s.release(node))
		} else {
			s.settle(node, r.class, r.short[begin:end])
		}
		next, end = node, begin
	}
	return longest
}

// settle makes a node of slots that are all live a run, or a node for each.
func (s *space) settle(node, c uint32, short []uint16) {
	if len(short) >= minRun {
		s.addRun(node, c, uint64(len(short)), 0, short)
		return
	}
	ns := &s.ranges.nodes
	off, slot, next := ns.at(node).off(), s.classes.all[c].slot, ns.at(node).next
	for i := len(short) - 1; i > 0; i-- {
		next = ns.insertBefore(next, off+uint64(i)*slot, live)
		s.enlist(next, c, uint32(short[i]))
	}
	ns.at(node).set(off, live)
	s.enlist(node, c, uint32(short[0]))
}
