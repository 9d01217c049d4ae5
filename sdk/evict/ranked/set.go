package ranked

import (
	"math"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Entry is one known object. With a State of up to 8 bytes it takes 32 bytes.
type Entry[T any] struct {
	ID   evict.ID
	Size uint64
	// prev is towards the front of the list, next towards the back. Both are 0 in an entry
	// that is in no list; in a free one, next chains the free entries.
	prev, next uint32
	// State is the order's own. It should hold no pointers.
	State T
}

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
	table table
	count uint64
	bytes uint64 // modulo 2^64, so that dropping undoes adding even past the end
}

// NewSet makes an empty set.
func NewSet[T any]() *Set[T] { return &Set[T]{pages: [][]Entry[T]{make([]Entry[T], pageSize)}} }

// At returns an entry. The pointer is good until the object is dropped.
func (s *Set[T]) At(at uint32) *Entry[T] { return &s.pages[at>>pageBits][at&pageMask] }

// Len is the number of objects.
func (s *Set[T]) Len() uint64 { return s.count }

// Bytes is the sum of their sizes, modulo 2^64.
func (s *Set[T]) Bytes() uint64 { return s.bytes }

// Find returns the index of an object, 0 where it is not known.
func (s *Set[T]) Find(id evict.ID) uint32 {
	h := mix(id)
	p := s.table.part(h)
	if p.count == 0 {
		return 0
	}
	mask := uint32(len(p.slots) - 1)
	for i := uint32(h) & mask; p.slots[i] != 0; i = (i + 1) & mask {
		slot := p.slots[i]
		if uint32(slot>>32) == uint32(h) && s.At(uint32(slot)).ID == id {
			return uint32(slot)
		}
	}
	return 0
}

// Add enters an object that is not known, in no list and with a zero State. It returns 0
// when the set is full, which is at some 4 billion objects.
func (s *Set[T]) Add(id evict.ID, size uint64) uint32 {
	at := s.take()
	if at == 0 {
		return 0
	}
	e := s.At(at)
	e.ID, e.Size = id, size
	s.table.add(id, at)
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
	s.bytes -= e.Size
	s.table.remove(e.ID, at)
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
