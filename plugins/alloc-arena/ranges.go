package arena

// ranges is the part of a space that knows which byte belongs to whom: the list of nodes
// and the index of the free ones. It knows nothing of classes.
type ranges struct {
	nodes  nodes
	bySize sizes // size of holes -> first hole of that size
	// byOffset finds holes by offset. It is built for Reserve and dropped by the first
	// allocation, nil otherwise.
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

// tries bounds how many free ranges a search visits that are large enough but may not be
// aligned. After that only those count that fit whatever their alignment.
const tries = 64

// fit returns the smallest hole that holds size bytes at a multiple of align, and that
// offset; 0 where none does. size is at most maxSpace.
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

// within returns the first multiple of align from begin on, and whether size bytes fit
// between it and end.
func within(begin, end, size, align uint64) (off uint64, ok bool) {
	off = (begin + align - 1) &^ (align - 1)
	return off, begin <= off && off <= end && size <= end-off
}
