package ranked

import (
	"math"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// Entry is one known object. With a State of up to 4 bytes it takes 24 bytes.
type Entry[T any] struct {
	ID     evict.ID
	size32 uint32 // the size, or wide: see Set.wide
	// prev is towards the front of the list, next towards the back. Both are 0 in an entry
	// that is in no list; in a free one, next chains the free entries.
	prev, next uint32
	// State is the order's own. It should hold no pointers.
	State T
}

// wide stands for a size that does not fit.
const wide = math.MaxUint32

const (
	pageBits = 12
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// Set holds objects by ID. An object is known by the index of its entry, which stays the
// same until the object is dropped; 0 is no entry. The memory grows in pages, so that no
// growth makes a long pause, and is kept at its peak. A Set is for one goroutine at a time.
type Set[T any] struct {
	pages [][]Entry[T]
	free  uint32 // first free entry, 0 for none
	last  uint32 // highest index ever handed out
	index slotindex.Split
	wide  map[uint32]uint64 // sizes of 4 GiB and more, by entry
	count uint64
	bytes uint64 // modulo 2^64, so that dropping undoes adding even past the end
}

// NewSet makes an empty set.
func NewSet[T any]() *Set[T] {
	return &Set[T]{pages: [][]Entry[T]{make([]Entry[T], pageSize)}, wide: map[uint32]uint64{}}
}

// At returns an entry. The pointer is good until the object is dropped.
func (s *Set[T]) At(at uint32) *Entry[T] { return &s.pages[at>>pageBits][at&pageMask] }

// Len is the number of objects.
func (s *Set[T]) Len() uint64 { return s.count }

// Bytes is the sum of their sizes, modulo 2^64.
func (s *Set[T]) Bytes() uint64 { return s.bytes }

// Size is the size of an object, as it was added.
func (s *Set[T]) Size(at uint32) uint64 {
	if size := s.At(at).size32; size != wide {
		return uint64(size)
	}
	return s.wide[at]
}

// Find returns the index of an object, 0 where it is not known.
func (s *Set[T]) Find(id evict.ID) uint32 {
	return s.index.Find(hash(id), func(at uint32) bool { return s.At(at).ID == id })
}

func hash(id evict.ID) uint64 { return slotindex.Mix(uint64(id)) }

// Add enters an object that is not known, in no list and with a zero State. It returns 0
// when the set is full, which is at some 4 billion objects.
func (s *Set[T]) Add(id evict.ID, size uint64) uint32 {
	at := s.take()
	if at == 0 {
		return 0
	}
	e := s.At(at)
	e.ID, e.size32 = id, uint32(min(size, wide))
	if size >= wide {
		s.wide[at] = size
	}
	s.index.Add(hash(id), at, func(at uint32) uint64 { return hash(s.At(at).ID) })
	s.count++
	s.bytes += size
	return at
}

// Drop takes an object out of its list, if it is in one, and out of the set.
func (s *Set[T]) Drop(at uint32) {
	if s.Linked(at) {
		s.Unlink(at)
	}
	e := s.At(at)
	s.count--
	s.bytes -= s.Size(at)
	if e.size32 == wide {
		delete(s.wide, at)
	}
	s.index.Remove(hash(e.ID), at)
	*e = Entry[T]{next: s.free}
	s.free = at
}

// take returns a zero entry, 0 when every index is in use.
func (s *Set[T]) take() uint32 {
	if at := s.free; at != 0 {
		e := s.At(at)
		s.free, e.next = e.next, 0
		return at
	}
	if s.last == math.MaxUint32 {
		return 0
	}
	s.last++
	if int(s.last>>pageBits) == len(s.pages) {
		s.pages = append(s.pages, make([]Entry[T], pageSize))
	}
	return s.last
}
