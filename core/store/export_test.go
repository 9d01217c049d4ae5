package store

// Memory returns the bytes of the i-th segment, to be damaged by tests.
func (n *Node) Memory(i int) []byte { return n.pieces[i].mem }

// Holds reports whether the node has memory, also such that is being unmounted.
func Holds(n *Node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pieces) > 0
}
