package arena

// kind says what a node stands for.
type kind uint8

const (
	unused kind = iota
	hole        // free range, in the index of free ranges
	spare       // the rest of a class's arena
	live        // extent
)

// node is one range of a space. The nodes of a space form a list in the order of their
// offsets that covers it without gaps; no two holes are neighbours.
type node struct {
	off, size  uint64
	prev, next uint32 // in the order of offsets; 0 is the sentinel at both ends
	// a and b link holes of one size, 0 at the ends. In a live or spare node a is the
	// class; in an unused one a chains the free list.
	a, b uint32
	// slack is how much smaller the extent is than its slot. Only in a live node.
	slack uint16
	kind  kind
}

const (
	pageBits = 8
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
	// maxNodes keeps indices within 32 bits; a space with so many extents refuses more.
	maxNodes = 1<<32 - 16
)

// nodes is a growing array in pages, so that growing copies nothing.
type nodes struct {
	pages [][]node
	free  uint32
	used  uint32
}

func newNodes() nodes { return nodes{pages: [][]node{make([]node, pageSize)}, used: 1} }

func (ns *nodes) at(i uint32) *node { return &ns.pages[i>>pageBits][i&pageMask] }

// insertBefore makes a node in front of another and returns its index.
func (ns *nodes) insertBefore(next uint32, off, size uint64, k kind) uint32 {
	i := ns.free
	if i != 0 {
		ns.free = ns.at(i).a
	} else {
		i = ns.used
		if i>>pageBits == uint32(len(ns.pages)) {
			ns.pages = append(ns.pages, make([]node, pageSize))
		}
		ns.used++
	}
	prev := ns.at(next).prev
	*ns.at(i) = node{off: off, size: size, prev: prev, next: next, kind: k}
	ns.at(prev).next = i
	ns.at(next).prev = i
	return i
}

// drop takes a node out of the list.
func (ns *nodes) drop(i uint32) {
	n := ns.at(i)
	ns.at(n.prev).next = n.next
	ns.at(n.next).prev = n.prev
	*n = node{a: ns.free}
	ns.free = i
}

// full reports whether an operation might run out of indices.
func (ns *nodes) full() bool { return ns.used >= maxNodes && ns.free == 0 }
