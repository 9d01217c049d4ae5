package slotindex

const (
	// parts is the number of indexes of a Split: at 10 million entries, growing one of them moves
	// 20 thousand.
	parts    = 1 << partBits
	partBits = 9
	// splitAt is the number of entries at which a Split uses more than one index.
	splitAt = 1 << 14
)

// Split is an Index that becomes many, which grow independently, once it is large. It is for
// millions of entries behind one lock. The zero value is empty and ready. It is for one goroutine
// at a time.
type Split struct {
	first Index // has all entries until parts exists
	parts *[parts]Index
}

// Find is Index.Find. It uses the upper 9 bits of the hash besides the lower 32.
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

// Len returns the number of entries. Its time is linear in the number of parts.
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

// Mix hashes a number. It spreads consecutive numbers and multiples well. It does not protect
// against a peer that chooses numbers that collide.
func Mix(x uint64) uint64 {
	h := x * 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}
