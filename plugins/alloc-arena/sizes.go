package arena

import "math/bits"

const (
	binBits = 6
	bins    = 1 << binBits // in an octave
	octaves = 64
)

// sizes is an ordered map from the sizes of free ranges to the first range of each. It keeps
// a small tree for each 64th of an octave and knows which of them are in use, so that a
// search leads through few nodes however many sizes there are.
type sizes struct {
	forest
	roots [octaves]*[bins]uint32 // made when an octave is first used
	used  [octaves]uint64        // the bins that hold something
	any   uint64                 // the octaves that do
}

func newSizes(seed uint64) sizes { return sizes{forest: newForest(seed)} }

// bin returns where a size of at least 1 belongs.
func bin(size uint64) (octave, at int) {
	octave = bits.Len64(size) - 1
	return octave, int(size << (63 - octave) << 1 >> (64 - binBits))
}

// find returns the tree node of a size, 0 where there is none.
func (s *sizes) find(size uint64) uint32 {
	octave, at := bin(size)
	if s.used[octave]>>at&1 == 0 {
		return 0
	}
	return s.forest.find(s.roots[octave][at], size)
}

// ceil returns the tree node of the smallest size that is at least size.
func (s *sizes) ceil(size uint64) uint32 {
	octave, at := bin(size)
	if s.used[octave]>>at&1 != 0 {
		if t := s.forest.ceil(s.roots[octave][at], size); t != 0 {
			return t
		}
	}
	above := s.used[octave] &^ (1<<(at+1) - 1)
	if above == 0 {
		any := s.any &^ (1<<(octave+1) - 1)
		if any == 0 {
			return 0
		}
		octave = bits.TrailingZeros64(any)
		above = s.used[octave]
	}
	return s.forest.ceil(s.roots[octave][bits.TrailingZeros64(above)], 0)
}

// largest returns the largest size, 0 where there is none.
func (s *sizes) largest() uint64 {
	octave := bits.Len64(s.any) - 1
	if octave < 0 {
		return 0
	}
	root := s.roots[octave][bits.Len64(s.used[octave])-1]
	return s.nodes[s.floor(root, 1<<63)].key
}

// insert adds a size that is not there.
func (s *sizes) insert(size uint64, value uint32) {
	octave, at := bin(size)
	if s.roots[octave] == nil {
		s.roots[octave] = new([bins]uint32)
	}
	s.forest.insert(&s.roots[octave][at], size, value)
	s.used[octave] |= 1 << at
	s.any |= 1 << octave
}

// remove takes out a size that is there.
func (s *sizes) remove(size uint64) {
	octave, at := bin(size)
	root := &s.roots[octave][at]
	s.forest.remove(root, size)
	if *root != 0 {
		return
	}
	if s.used[octave] &^= 1 << at; s.used[octave] == 0 {
		s.any &^= 1 << octave
	}
}
