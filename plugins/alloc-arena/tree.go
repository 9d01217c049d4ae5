package arena

import "github.com/mooncake-go/mooncake/sdk/slotindex"

// tree is an ordered map from uint64 to a node index, in one flat array. It is a treap
// whose priorities are hashes of the keys under a random seed, so that no choice of sizes
// can make it deep; the order of the keys, and with it every placement, does not depend
// on the seed. Index 0 stands for no node.
type tree struct {
	nodes      []treeNode
	root, free uint32
	seed       uint64
}

type treeNode struct {
	key         uint64
	left, right uint32 // in a free node, right chains the free list
	priority    uint32
	value       uint32
}

func newTree(seed uint64) tree { return tree{nodes: make([]treeNode, 1), seed: seed} }

// find returns the node with the key, 0 where there is none.
func (t *tree) find(key uint64) uint32 {
	at := t.root
	for at != 0 && t.nodes[at].key != key {
		if key < t.nodes[at].key {
			at = t.nodes[at].left
		} else {
			at = t.nodes[at].right
		}
	}
	return at
}

// ceil returns the node with the smallest key that is at least key.
func (t *tree) ceil(key uint64) uint32 {
	var best uint32
	for at := t.root; at != 0; {
		if n := &t.nodes[at]; n.key >= key {
			best, at = at, n.left
		} else {
			at = n.right
		}
	}
	return best
}

// floor returns the node with the largest key that is at most key.
func (t *tree) floor(key uint64) uint32 {
	var best uint32
	for at := t.root; at != 0; {
		if n := &t.nodes[at]; n.key <= key {
			best, at = at, n.right
		} else {
			at = n.left
		}
	}
	return best
}

// last returns the node with the largest key.
func (t *tree) last() uint32 {
	at := t.root
	for at != 0 && t.nodes[at].right != 0 {
		at = t.nodes[at].right
	}
	return at
}

// insert adds a key that is not in the tree and returns its node.
func (t *tree) insert(key uint64, value uint32) uint32 {
	at := t.free
	if at != 0 {
		t.free = t.nodes[at].right
	} else {
		at = uint32(len(t.nodes))
		t.nodes = append(t.nodes, treeNode{})
	}
	priority := uint32(slotindex.Mix(key^t.seed) >> 32)
	t.nodes[at] = treeNode{key: key, priority: priority, value: value}

	link := &t.root
	for *link != 0 && t.nodes[*link].priority >= priority {
		link = t.child(*link, key)
	}
	// What hangs here is split by key into the two sides of the new node.
	rest := *link
	*link = at
	left, right := &t.nodes[at].left, &t.nodes[at].right
	for rest != 0 {
		n := &t.nodes[rest]
		if n.key < key {
			*left = rest
			left, rest = &n.right, n.right
		} else {
			*right = rest
			right, rest = &n.left, n.left
		}
	}
	*left, *right = 0, 0
	return at
}

// remove takes out a key that is in the tree.
func (t *tree) remove(key uint64) {
	link := &t.root
	for t.nodes[*link].key != key {
		link = t.child(*link, key)
	}
	at := *link
	left, right := t.nodes[at].left, t.nodes[at].right
	for left != 0 && right != 0 {
		if l, r := &t.nodes[left], &t.nodes[right]; l.priority >= r.priority {
			*link = left
			link, left = &l.right, l.right
		} else {
			*link = right
			link, right = &r.left, r.left
		}
	}
	*link = left | right
	t.nodes[at] = treeNode{right: t.free}
	t.free = at
}

func (t *tree) child(at uint32, key uint64) *uint32 {
	if n := &t.nodes[at]; key < n.key {
		return &n.left
	}
	return &t.nodes[at].right
}
