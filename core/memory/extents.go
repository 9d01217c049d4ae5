package memory

import "math/bits"

// none is the index of no extent.
const none = -1

// extent is a run of units that is free or in use. Neighbours by address are linked, and
// so are the free ones of a bin.
type extent struct {
	off, size  uint64
	prev, next int32 // by address
	up, down   int32 // in the bin's list; free extents only
	gen        uint32
	used       bool
}

// extents divides the units 0 to n into extents: take and give cost the same whatever the
// fill. Free extents are kept in bins, eight to a power of two, with a bitmap of those
// that hold any. It works on numbers only.
type extents struct {
	nodes  []extent
	unused []int32 // indexes of nodes without an extent
	heads  [64 * 8]int32
	filled [8]uint64
	free   uint64 // units
}

func newExtents(n uint64) *extents {
	e := &extents{}
	for i := range e.heads {
		e.heads[i] = none
	}
	i := e.node()
	e.nodes[i] = extent{size: n, prev: none, next: none}
	e.insert(i)
	e.free = n
	return e
}

// binOf returns the bin of extents of n units: exact up to 15, then in eighths of the
// power of two below.
func binOf(n uint64) int {
	if n < 8 {
		return int(n)
	}
	top := bits.Len64(n) - 1
	return (top-2)*8 + int(n>>(top-3)&7)
}

// fitting returns the first bin of which every extent has at least n units.
func fitting(n uint64) int {
	b := binOf(n)
	if n >= 16 && n&(1<<(bits.Len64(n)-4)-1) != 0 {
		b++
	}
	return b
}

// find returns a free extent of at least n units, none where the bins hold none for sure.
func (e *extents) find(n uint64) int32 {
	b := fitting(n)
	for w := b / 64; w < len(e.filled); w++ {
		word := e.filled[w]
		if w == b/64 {
			word &= ^uint64(0) << (b % 64)
		}
		if word != 0 {
			return e.heads[w*64+bits.TrailingZeros64(word)]
		}
	}
	// The first of the bin below may be large enough as well.
	if i := e.heads[binOf(n)]; i != none && e.nodes[i].size >= n {
		return i
	}
	return none
}

// take returns the index of an extent of n units that is now in use, or none.
func (e *extents) take(n uint64) int32 {
	i := e.find(n)
	if i == none {
		return none
	}
	e.remove(i)
	if rest := e.nodes[i].size - n; rest > 0 {
		j := e.node()
		x := &e.nodes[i]
		e.nodes[j] = extent{off: x.off + n, size: rest, prev: i, next: x.next, gen: e.nodes[j].gen}
		if x.next != none {
			e.nodes[x.next].prev = j
		}
		x.next, x.size = j, n
		e.insert(j)
	}
	e.nodes[i].used = true
	e.free -= n
	return i
}

// give frees the extent and joins it with its free neighbours. False for one that is not
// in use or, by its generation, another one by now.
func (e *extents) give(i int32, gen uint32) bool {
	x := &e.nodes[i]
	if !x.used || x.gen != gen {
		return false
	}
	x.used = false
	x.gen++
	e.free += x.size
	if n := x.next; n != none && !e.nodes[n].used {
		e.join(i, n)
	}
	if p := x.prev; p != none && !e.nodes[p].used {
		e.remove(p)
		e.merge(p, i)
		i = p
	}
	e.insert(i)
	return true
}

// join takes the free neighbour n out of its bin and into i.
func (e *extents) join(i, n int32) {
	e.remove(n)
	e.merge(i, n)
}

// merge adds n to its left neighbour i; neither is in a bin.
func (e *extents) merge(i, n int32) {
	e.nodes[i].size += e.nodes[n].size
	e.nodes[i].next = e.nodes[n].next
	if next := e.nodes[n].next; next != none {
		e.nodes[next].prev = i
	}
	e.nodes[n].used = false
	e.unused = append(e.unused, n)
}

func (e *extents) node() int32 {
	if n := len(e.unused); n > 0 {
		i := e.unused[n-1]
		e.unused = e.unused[:n-1]
		return i
	}
	e.nodes = append(e.nodes, extent{})
	return int32(len(e.nodes) - 1)
}

func (e *extents) insert(i int32) {
	b := binOf(e.nodes[i].size)
	head := e.heads[b]
	e.nodes[i].up, e.nodes[i].down = none, head
	if head != none {
		e.nodes[head].up = i
	}
	e.heads[b] = i
	e.filled[b/64] |= 1 << (b % 64)
}

func (e *extents) remove(i int32) {
	x := e.nodes[i]
	if x.down != none {
		e.nodes[x.down].up = x.up
	}
	if x.up != none {
		e.nodes[x.up].down = x.down
		return
	}
	b := binOf(x.size)
	e.heads[b] = x.down
	if x.down == none {
		e.filled[b/64] &^= 1 << (b % 64)
	}
}
