package arena

// kind says what a node stands for.
type kind uint64

const (
	unused kind = iota
	hole        // free range, in the index of free ranges
	rest        // the rest of a class's arena
	live        // extent
	row         // run of slots, each of them an extent or free
)

// node is one range of a space, 24 bytes. The nodes of a space form a list in the order of their
// offsets that covers it without gaps, so that each ends where the next begins; no two holes are
// neighbours.
type node struct {
	place      uint64 // the offset and, in the lowest bits, the kind
	prev, next uint32 // in the order of offsets; 0 is the sentinel at both ends
	// a and b link holes of one size, 0 at the ends. In a live or rest node a is the class, and in
	// a live one b is how much smaller the extent is than its slot. In a row a is the number of the
	// run. In an unused node a chains the free list.
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

// insertBefore makes a node in front of another, out of the end of the one before that, and returns
// its index.
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

// ranges is the part of a space that knows which byte belongs to whom: the list of nodes and the
// index of the free ones. It knows nothing of classes.
type ranges struct {
	nodes  nodes
	bySize sizes // size of holes -> first hole of that size
	// byOffset finds holes by offset. It is built for Reserve and dropped by the first allocation,
	// nil otherwise.
	byOffset *tree
}

func newRanges(size, seed uint64) ranges {
	r := ranges{nodes: newNodes(size), bySize: newSizes(seed)}
	if size > 0 {
		r.addHole(r.nodes.insertBefore(0, 0, hole), size)
	}
	return r
}

// addHole puts a node of kind hole into the index, with its size.
func (r *ranges) addHole(i uint32, size uint64) {
	n := r.nodes.at(i)
	first := r.bySize.first(size)
	n.a, n.b = 0, *first
	if n.b != 0 {
		r.nodes.at(n.b).a = i
	}
	*first = i
	if r.byOffset != nil {
		*r.byOffset.insert(&r.byOffset.root, n.off()) = i
	}
}

// takeHole takes a hole of a size out of the index.
func (r *ranges) takeHole(i uint32, size uint64) {
	n := r.nodes.at(i)
	if n.b != 0 {
		r.nodes.at(n.b).a = n.a
	}
	switch {
	case n.a != 0:
		r.nodes.at(n.a).b = n.b
	case n.b != 0:
		*r.bySize.first(size) = n.b
	default:
		r.bySize.remove(size)
	}
	if r.byOffset != nil {
		r.byOffset.remove(&r.byOffset.root, n.off())
	}
}

// carve cuts [off, off+size) out of a hole that holds it and returns the node, with kind k.
func (r *ranges) carve(i uint32, off, size uint64, k kind) uint32 {
	n := r.nodes.at(i)
	begin, end := n.off(), r.nodes.end(n)
	r.takeHole(i, end-begin)
	n.set(off, k)
	n.a, n.b = 0, 0
	if begin < off {
		r.addHole(r.nodes.insertBefore(i, begin, hole), off-begin)
	}
	if off += size; off < end {
		r.addHole(r.nodes.insertBefore(n.next, off, hole), end-off)
	}
	return i
}

// release makes a node free, merges it with free neighbours, and returns how long it is then.
func (r *ranges) release(i uint32) uint64 {
	n := r.nodes.at(i)
	begin, prev, next := n.off(), n.prev, n.next
	if p := r.nodes.at(prev); p.kind() == hole {
		r.takeHole(prev, begin-p.off())
		begin = p.off()
		r.nodes.drop(prev)
	}
	q := r.nodes.at(next)
	end := q.off()
	if q.kind() == hole {
		size := r.nodes.size(q)
		r.takeHole(next, size)
		end += size
		r.nodes.drop(next)
	}
	n.set(begin, hole)
	r.addHole(i, end-begin)
	return end - begin
}

// tries bounds how many free ranges a search visits that are large enough but may not be aligned.
// After that only those count that fit whatever their alignment.
const tries = 64

// fit returns the smallest hole that holds size bytes at a multiple of align, and that offset; 0
// where none does. size is at most maxSpace.
func (r *ranges) fit(size, align uint64) (i uint32, off uint64) {
	t := r.bySize.ceil(size)
	for n := 0; t != 0 && n < tries; t = r.bySize.ceil(r.bySize.nodes[t].key + 1) {
		for i = r.bySize.nodes[t].value; i != 0 && n < tries; i = r.nodes.at(i).b {
			if off, ok := r.within(i, size, align); ok {
				return i, off
			}
			n++
		}
	}
	if t = r.bySize.ceil(size + align); t == 0 {
		return 0, 0
	}
	i = r.bySize.nodes[t].value
	off, _ = r.within(i, size, align)
	return i, off
}

// within returns the first aligned offset of a hole at which size bytes fit.
func (r *ranges) within(i uint32, size, align uint64) (off uint64, ok bool) {
	n := r.nodes.at(i)
	return within(n.off(), r.nodes.end(n), size, align)
}

// within returns the first multiple of align from begin on, and whether size bytes fit between it
// and end.
func within(begin, end, size, align uint64) (off uint64, ok bool) {
	off = (begin + align - 1) &^ (align - 1)
	return off, begin <= off && off <= end && size <= end-off
}
