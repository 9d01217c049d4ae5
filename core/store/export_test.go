package store

// Memory returns the bytes of the i-th segment, to be damaged by tests.
func (n *Node) Memory(i int) []byte { return n.pieces[i].mem }
