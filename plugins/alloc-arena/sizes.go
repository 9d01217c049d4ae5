package arena

import (
	"math/bits"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// forest holds ordered maps from uint64 to a node index, all in one flat array. Each is a treap
// whose priorities are hashes of the keys under a random seed, so that no choice of sizes can make
// it deep; the order of the keys, and with it every placement, does not depend on the seed. A tree
// is known by its root; index 0 stands for no node.
type forest struct {
	nodes []treeNode
	free  uint32
	seed  uint64
}

type treeNode struct {
	key         uint64
	left, right uint32 // in a free node, right chains the free list
	priority    uint32
	value       uint32
}

func newForest(seed uint64) forest { return forest{nodes: make([]treeNode, 1), seed: seed} }

// tree is a forest of one tree.
type tree struct {
	forest
	root uint32
}

// find returns the node with the key, 0 where there is none.
func (f *forest) find(root uint32, key uint64) uint32 {
	at := root
	for at != 0 && f.nodes[at].key != key {
		if key < f.nodes[at].key {
			at = f.nodes[at].left
		} else {
			at = f.nodes[at].right
		}
	}
	return at
}

// ceil returns the node with the smallest key that is at least key.
func (f *forest) ceil(root uint32, key uint64) uint32 {
	var best uint32
	for at := root; at != 0; {
		if n := &f.nodes[at]; n.key >= key {
			best, at = at, n.left
		} else {
			at = n.right
		}
	}
	return best
}

// floor returns the node with the largest key that is at most key.
func (f *forest) floor(root uint32, key uint64) uint32 {
	var best uint32
	for at := root; at != 0; {
		if n := &f.nodes[at]; n.key <= key {
			best, at = at, n.right
		} else {
			at = n.left
		}
	}
	return best
}

// insert adds a key, unless it is in the tree, and returns where its value is, 0 for a new one. The
// place is good until the next insertion.
func (f *forest) insert(root *uint32, key uint64) *uint32 {
	if f.free == 0 {
		f.nodes = slices.Grow(f.nodes, 1) // link leads into it
	}
	priority := uint32(slotindex.Mix(key^f.seed) >> 32)
	link := root
	for *link != 0 {
		n := &f.nodes[*link]
		if n.priority < priority {
			break
		}
		if n.key == key {
			return &n.value
		}
		if key < n.key {
			link = &n.left
		} else {
			link = &n.right
		}
	}
	at := f.free
	if at != 0 {
		f.free = f.nodes[at].right
	} else {
		at = uint32(len(f.nodes))
		f.nodes = append(f.nodes, treeNode{})
	}
	f.nodes[at] = treeNode{key: key, priority: priority}
	// What hangs here is split by key into the two sides of the new node.
	rest := *link
	*link = at
	left, right := &f.nodes[at].left, &f.nodes[at].right
	for rest != 0 {
		n := &f.nodes[rest]
		if n.key < key {
			*left = rest
			left, rest = &n.right, n.right
		} else {
			*right = rest
			right, rest = &n.left, n.left
		}
	}
	*left, *right = 0, 0
	return &f.nodes[at].value
}

// remove takes out a key that is in the tree.
func (f *forest) remove(root *uint32, key uint64) {
	link := root
	for f.nodes[*link].key != key {
		link = f.child(*link, key)
	}
	at := *link
	left, right := f.nodes[at].left, f.nodes[at].right
	for left != 0 && right != 0 {
		if l, r := &f.nodes[left], &f.nodes[right]; l.priority >= r.priority {
			*link = left
			link, left = &l.right, l.right
		} else {
			*link = right
			link, right = &r.left, r.left
		}
	}
	*link = left | right
	f.nodes[at] = treeNode{right: f.free}
	f.free = at
}

func (f *forest) child(at uint32, key uint64) *uint32 {
	if n := &f.nodes[at]; key < n.key {
		return &n.left
	}
	return &f.nodes[at].right
}

// Sizes are kept apart by their highest nine bits: in bins, of which there are four groups to an
// octave.
const (
	bins   = 64
	groups = 4 * 64
)

// sizes is an ordered map from the sizes of free ranges to the first range of each. It keeps a
// small tree for each bin and knows which of them are in use, so that a search leads through few
// nodes however many sizes there are.
type sizes struct {
	forest
	roots [groups]*[bins]uint32 // made when a group is first used
	used  [groups]uint64        // the bins that hold something
	any   [groups / 64]uint64   // the groups that do
}

func newSizes(seed uint64) sizes { return sizes{forest: newForest(seed)} }

// bin returns where a size of at least 1 belongs.
func bin(size uint64) (group, at uint) {
	octave := uint(bits.Len64(size)) - 1
	below := uint(size << (63 - octave) << 1 >> (64 - 8))
	return (octave<<2 | below>>6) % groups, below % bins
}

// find returns the tree node of a size, 0 where there is none.
func (s *sizes) find(size uint64) uint32 {
	group, at := bin(size)
	if s.used[group]>>at&1 == 0 {
		return 0
	}
	return s.forest.find(s.roots[group][at], size)
}

// ceil returns the tree node of the smallest size that is at least size.
func (s *sizes) ceil(size uint64) uint32 {
	group, at := bin(size)
	if s.used[group]>>at&1 != 0 {
		if t := s.forest.ceil(s.roots[group][at], size); t != 0 {
			return t
		}
	}
	above := s.used[group] >> at >> 1 << at << 1
	if above == 0 {
		if group = s.groupAbove(group); group == 0 {
			return 0
		}
		above = s.used[group]
	}
	return s.forest.ceil(s.roots[group][bits.TrailingZeros64(above)], 0)
}

// groupAbove returns the first group in use after one, 0 where there is none.
func (s *sizes) groupAbove(group uint) uint {
	word := group / 64
	above := s.any[word] >> (group % 64) >> 1 << (group % 64) << 1
	for above == 0 {
		if word++; word == uint(len(s.any)) {
			return 0
		}
		above = s.any[word]
	}
	return word*64 + uint(bits.TrailingZeros64(above))
}

// largest returns the largest size, 0 where there is none.
func (s *sizes) largest() uint64 {
	for word := len(s.any) - 1; word >= 0; word-- {
		if s.any[word] == 0 {
			continue
		}
		group := word*64 + bits.Len64(s.any[word]) - 1
		root := s.roots[group][bits.Len64(s.used[group])-1]
		return s.nodes[s.floor(root, 1<<63)].key
	}
	return 0
}

// first returns where the first range of a size is kept, 0 where there was none; the caller sets it
// before anything else is added.
func (s *sizes) first(size uint64) *uint32 {
	group, at := bin(size)
	if s.roots[group] == nil {
		s.roots[group] = new([bins]uint32)
	}
	s.used[group] |= 1 << at
	s.any[group/64] |= 1 << (group % 64)
	return s.insert(&s.roots[group][at], size)
}

// remove takes out a size that is there.
func (s *sizes) remove(size uint64) {
	group, at := bin(size)
	root := &s.roots[group][at]
	s.forest.remove(root, size)
	if *root != 0 {
		return
	}
	if s.used[group] &^= 1 << at; s.used[group] == 0 {
		s.any[group/64] &^= 1 << (group % 64)
	}
}
