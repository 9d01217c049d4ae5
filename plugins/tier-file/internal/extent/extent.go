// Package extent divides a space of numbered units among extents: best fit, with free neighbours
// merged at once.
//
// Free extents are in lists by size: one list for each size below 32 units, 32 lists an octave
// above. A bitmap finds the next list that is not empty. The caller says what is free, so ranges
// that must not be one extent, such as two files, only need numbers with a gap between them.
package extent

import "math/bits"

const (
	steps   = 32 // lists an octave
	classes = (64 - 5) * steps
	// tries is how many extents of a list of larger ones are compared.
	tries = 16
)

// Space is not safe for concurrent use. The zero Space has nothing free.
type Space struct {
	nodes  []node // node 0 is none
	unused uint32 // a list of nodes without an extent
	heads  [classes]uint32
	filled [(classes + 63) / 64]uint64
	starts map[uint64]uint32
	ends   map[uint64]uint32
	free   uint64
}

type node struct {
	at, units  uint64
	prev, next uint32
}

// class returns the list of extents of so many units, at least 1.
func class(units uint64) int {
	octave := max(0, bits.Len64(units)-6)
	return octave*steps + int(units>>octave)
}

// Unused returns how many units are free.
func (s *Space) Unused() uint64 { return s.free }

// Alloc takes units that are adjacent. ok is false if no free extent is large enough.
func (s *Space) Alloc(units uint64) (at uint64, ok bool) {
	if units == 0 {
		return 0, false
	}
	c := class(units)
	best := s.smallest(c, units, len(s.nodes))
	if best == 0 {
		c = s.above(c)
		if c < 0 {
			return 0, false
		}
		best = s.smallest(c, units, tries)
	}
	n := s.nodes[best]
	s.remove(best)
	if n.units > units {
		s.add(n.at+units, n.units-units)
	}
	return n.at, true
}

// smallest returns the smallest of up to most extents of a list that has so many units, or 0.
func (s *Space) smallest(c int, units uint64, most int) (best uint32) {
	for i := s.heads[c]; i != 0 && most > 0; i, most = s.nodes[i].next, most-1 {
		n := s.nodes[i].units
		if n == units {
			return i
		}
		if n > units && (best == 0 || n < s.nodes[best].units) {
			best = i
		}
	}
	return best
}

// above returns the next list that is not empty, or -1.
func (s *Space) above(c int) int {
	c++
	for w := c / 64; w < len(s.filled); w++ {
		f := s.filled[w]
		if w == c/64 {
			f &= ^uint64(0) << (c % 64)
		}
		if f != 0 {
			return w*64 + bits.TrailingZeros64(f)
		}
	}
	return -1
}

// Free makes units free. They must not be free yet.
func (s *Space) Free(at, units uint64) {
	if units == 0 {
		return
	}
	if i, ok := s.ends[at]; ok {
		at, units = s.nodes[i].at, units+s.nodes[i].units
		s.remove(i)
	}
	if i, ok := s.starts[at+units]; ok {
		units += s.nodes[i].units
		s.remove(i)
	}
	s.add(at, units)
}

// Largest returns how many units the largest free extent has. It takes time linear in the number of
// extents that are about as large.
func (s *Space) Largest() (most uint64) {
	for w := len(s.filled) - 1; w >= 0; w-- {
		if s.filled[w] == 0 {
			continue
		}
		for i := s.heads[w*64+63-bits.LeadingZeros64(s.filled[w])]; i != 0; i = s.nodes[i].next {
			most = max(most, s.nodes[i].units)
		}
		return most
	}
	return 0
}

func (s *Space) add(at, units uint64) {
	if s.starts == nil {
		s.starts, s.ends = map[uint64]uint32{}, map[uint64]uint32{}
		s.nodes = make([]node, 1)
	}
	i := s.unused
	if i != 0 {
		s.unused = s.nodes[i].next
	} else {
		i = uint32(len(s.nodes))
		s.nodes = append(s.nodes, node{})
	}
	c := class(units)
	head := s.heads[c]
	s.nodes[i] = node{at: at, units: units, next: head}
	if head != 0 {
		s.nodes[head].prev = i
	}
	s.heads[c] = i
	s.filled[c/64] |= 1 << (c % 64)
	s.starts[at], s.ends[at+units] = i, i
	s.free += units
}

func (s *Space) remove(i uint32) {
	n := s.nodes[i]
	c := class(n.units)
	if n.prev != 0 {
		s.nodes[n.prev].next = n.next
	} else {
		s.heads[c] = n.next
		if n.next == 0 {
			s.filled[c/64] &^= 1 << (c % 64)
		}
	}
	if n.next != 0 {
		s.nodes[n.next].prev = n.prev
	}
	delete(s.starts, n.at)
	delete(s.ends, n.at+n.units)
	s.free -= n.units
	s.nodes[i] = node{next: s.unused}
	s.unused = i
}
