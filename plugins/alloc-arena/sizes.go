package arena

import "math/bits"

// Sizes are kept apart by their highest nine bits: in bins, of which there are four groups to
// an octave.
const (
	bins   = 64
	groups = 4 * 64
)

// sizes is an ordered map from the sizes of free ranges to the first range of each. It keeps
// a small tree for each bin and knows which of them are in use, so that a search leads through
// few nodes however many sizes there are.
type sizes struct {
	forest
	roots [groups]*[bins]uint32 // made when a group is first used
	used  [groups]uint64        // the bins that hold something
	any   [groups / 64]uint64   // the groups that do
}

func newSizes(seed uint64) sizes { return sizes{forest: newForest(seed)} }

// bin returns where a size of at least 1 belongs.
func bin(size uint64) (group, at uint) {
	octave := uint(bits.Len64(size)) - 1
	below := uint(size << (63 - octave) << 1 >> (64 - 8))
	return (octave<<2 | below>>6) % groups, below % bins
}

// find returns the tree node of a size, 0 where there is none.
func (s *sizes) find(size uint64) uint32 {
	group, at := bin(size)
	if s.used[group]>>at&1 == 0 {
		return 0
	}
	return s.forest.find(s.roots[group][at], size)
}

// ceil returns the tree node of the smallest size that is at least size.
func (s *sizes) ceil(size uint64) uint32 {
	group, at := bin(size)
	if s.used[group]>>at&1 != 0 {
		if t := s.forest.ceil(s.roots[group][at], size); t != 0 {
			return t
		}
	}
	above := s.used[group] >> at >> 1 << at << 1
	if above == 0 {
		if group = s.groupAbove(group); group == 0 {
			return 0
		}
		above = s.used[group]
	}
	return s.forest.ceil(s.roots[group][bits.TrailingZeros64(above)], 0)
}

// groupAbove returns the first group in use after one, 0 where there is none.
func (s *sizes) groupAbove(group uint) uint {
	word := group / 64
	above := s.any[word] >> (group % 64) >> 1 << (group % 64) << 1
	for above == 0 {
		if word++; word == uint(len(s.any)) {
			return 0
		}
		above = s.any[word]
	}
	return word*64 + uint(bits.TrailingZeros64(above))
}

// largest returns the largest size, 0 where there is none.
func (s *sizes) largest() uint64 {
	for word := len(s.any) - 1; word >= 0; word-- {
		if s.any[word] == 0 {
			continue
		}
		group := word*64 + bits.Len64(s.any[word]) - 1
		root := s.roots[group][bits.Len64(s.used[group])-1]
		return s.nodes[s.floor(root, 1<<63)].key
	}
	return 0
}

// first returns where the first range of a size is kept, 0 where there was none; the caller
// sets it before anything else is added.
func (s *sizes) first(size uint64) *uint32 {
	group, at := bin(size)
	if s.roots[group] == nil {
		s.roots[group] = new([bins]uint32)
	}
	s.used[group] |= 1 << at
	s.any[group/64] |= 1 << (group % 64)
	return s.insert(&s.roots[group][at], size)
}

// remove takes out a size that is there.
func (s *sizes) remove(size uint64) {
	group, at := bin(size)
	root := &s.roots[group][at]
	s.forest.remove(root, size)
	if *root != 0 {
		return
	}
	if s.used[group] &^= 1 << at; s.used[group] == 0 {
		s.any[group/64] &^= 1 << (group % 64)
	}
}
