package arena

// kind says what a node stands for.
type kind uint64

const (
	unused kind = iota
	hole        // free range, in the index of free ranges
	spare       // the rest of a class's arena
	live        // extent
	row         // run of slots, each of them an extent or free
)

// node is one range of a space, 24 bytes. The nodes of a space form a list in the order of
// their offsets that covers it without gaps, so that each ends where the next begins; no
// two holes are neighbours.
type node struct {
	place      uint64 // the offset and, in the lowest bits, the kind
	prev, next uint32 // in the order of offsets; 0 is the sentinel at both ends
	// a and b link holes of one size, 0 at the ends. In a live or spare node a is the
	// class, and in a live one b is how much smaller the extent is than its slot. In a row
	// a is the number of the run. In an unused node a chains the free list.
	a, b uint32
}

const kindBits = 3

func (n *node) off() uint64 { return n.place >> kindBits }
func (n *node) kind() kind  { return kind(n.place & (1<<kindBits - 1)) }

func (n *node) set(off uint64, k kind) { n.place = off<<kindBits | uint64(k) }

const (
	pageBits = 8
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
	// maxNodes keeps indices within 32 bits; a space with so many extents refuses more.
	maxNodes = 1<<32 - 16
)

// nodes is a growing array in pages, so that growing copies nothing.
type nodes struct {
	pages []*[pageSize]node
	free  uint32
	used  uint32
}

// newNodes makes the list of a space of that size, without a node but the sentinel.
func newNodes(size uint64) nodes {
	ns := nodes{pages: []*[pageSize]node{new([pageSize]node)}, used: 1}
	ns.at(0).set(size, unused)
	return ns
}

func (ns *nodes) at(i uint32) *node { return &ns.pages[i>>pageBits][i&pageMask] }

// end returns where a node ends.
func (ns *nodes) end(n *node) uint64 { return ns.at(n.next).off() }

// size returns how long a node is.
func (ns *nodes) size(n *node) uint64 { return ns.end(n) - n.off() }

// insertBefore makes a node in front of another, out of the end of the one before that, and
// returns its index.
func (ns *nodes) insertBefore(next uint32, off uint64, k kind) uint32 {
	i := ns.free
	if i != 0 {
		ns.free = ns.at(i).a
	} else {
		i = ns.used
		if i>>pageBits == uint32(len(ns.pages)) {
			ns.pages = append(ns.pages, new([pageSize]node))
		}
		ns.used++
	}
	prev := ns.at(next).prev
	*ns.at(i) = node{prev: prev, next: next}
	ns.at(i).set(off, k)
	ns.at(prev).next = i
	ns.at(next).prev = i
	return i
}

// drop takes a node out of the list. What it stood for belongs to the one before.
func (ns *nodes) drop(i uint32) {
	n := ns.at(i)
	ns.at(n.prev).next = n.next
	ns.at(n.next).prev = n.prev
	*n = node{a: ns.free}
	ns.free = i
}

// full reports whether an operation might run out of indices.
func (ns *nodes) full() bool { return ns.used >= maxNodes && ns.free == 0 }
