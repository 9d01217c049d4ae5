package lru

import "github.com/mooncake-go/mooncake/sdk/evict"

// entry is one known object.
type entry struct {
	id   evict.ID
	size uint64
	// prev is towards the victim end, next towards the recent end. In a free entry, next
	// chains the free list; in a proposed one both are unused.
	prev, next uint32
	proposed   bool
}

const (
	pageBits = 12
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

// entries is a growing array of entry in pages, so that growing copies no entry and makes
// no long pause. Index 0 is the sentinel of the recency ring: its next is the victim end,
// its prev the recent end.
type entries struct {
	pages [][]entry
	free  uint32 // first free entry, 0 for none
	used  uint32 // entries ever handed out, the sentinel included
}

func newEntries() entries {
	return entries{pages: [][]entry{make([]entry, pageSize)}, used: 1}
}

func (e *entries) at(i uint32) *entry { return &e.pages[i>>pageBits][i&pageMask] }

// take returns an unlinked entry.
func (e *entries) take() uint32 {
	if i := e.free; i != 0 {
		e.free = e.at(i).next
		return i
	}
	i := e.used
	if i>>pageBits == uint32(len(e.pages)) {
		e.pages = append(e.pages, make([]entry, pageSize))
	}
	e.used++
	return i
}

// give returns an unlinked entry to the free list.
func (e *entries) give(i uint32) {
	*e.at(i) = entry{next: e.free}
	e.free = i
}

// pushRecent links an entry at the recent end.
func (e *entries) pushRecent(i uint32) {
	root, n := e.at(0), e.at(i)
	n.prev, n.next = root.prev, 0
	e.at(root.prev).next = i
	root.prev = i
}

func (e *entries) unlink(i uint32) {
	n := e.at(i)
	e.at(n.prev).next = n.next
	e.at(n.next).prev = n.prev
}
