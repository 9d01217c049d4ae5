package slotindex

const (
	// parts is over how many indexes a Split is spread: at 10 million entries, growing one
	// moves 20 thousand.
	parts    = 1 << partBits
	partBits = 9
	// splitAt is how many entries it takes to be spread.
	splitAt = 1 << 14
)

// Split is an Index that becomes many, which grow on their own, once it is large. It is for
// millions of entries behind one lock. The zero value is empty and ready. It is for one
// goroutine at a time.
type Split struct {
	first Index // all, until there are parts
	parts *[parts]Index
}

// Find is Index.Find. Besides the lower 32 bits of the hash, the upper 9 count.
func (s *Split) Find(hash uint64, is func(number uint32) bool) uint32 {
	return s.part(hash).Find(hash, is)
}

// Add is Index.Add.
func (s *Split) Add(hash uint64, number uint32, hashOf func(number uint32) uint64) {
	if s.parts == nil && s.first.Len() == splitAt {
		s.split(hashOf)
	}
	s.part(hash).Add(hash, number, hashOf)
}

// Remove is Index.Remove.
func (s *Split) Remove(hash uint64, number uint32) { s.part(hash).Remove(hash, number) }

// Len is the number of entries. It looks at each part.
func (s *Split) Len() int {
	n := s.first.Len()
	if s.parts != nil {
		for i := range s.parts {
			n += s.parts[i].Len()
		}
	}
	return n
}

func (s *Split) part(hash uint64) *Index {
	if s.parts == nil {
		return &s.first
	}
	return &s.parts[hash>>(64-partBits)]
}

func (s *Split) split(hashOf func(number uint32) uint64) {
	s.parts = new([parts]Index)
	s.first.each(func(number uint32) { s.Add(hashOf(number), number, hashOf) })
	s.first = Index{}
}

// Mix hashes a number. It spreads consecutive ones and multiples well; it is no defence
// against who chooses numbers that collide.
func Mix(x uint64) uint64 {
	h := x * 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}
