package arena

import (
	"slices"

	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// forest holds ordered maps from uint64 to a node index, all in one flat array. Each is a
// treap whose priorities are hashes of the keys under a random seed, so that no choice of
// sizes can make it deep; the order of the keys, and with it every placement, does not
// depend on the seed. A tree is known by its root; index 0 stands for no node.
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

// insert adds a key, unless it is in the tree, and returns where its value is, 0 for a new
// one. The place is good until the next insertion.
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
