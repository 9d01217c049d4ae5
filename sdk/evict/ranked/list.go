package ranked

// List is a doubly linked list of a Set's entries. An entry is in one list at most.
type List struct {
	// root is an entry that stands for both ends: its next is the front, its prev the back.
	root uint32
}

// NewList makes an empty list, which lasts as long as the set.
func (s *Set[T]) NewList() List {
	root := s.take()
	e := s.At(root)
	e.prev, e.next = root, root
	return List{root}
}

// Front returns the first entry of a list, 0 when it is empty.
func (s *Set[T]) Front(l List) uint32 { return s.Next(l, l.root) }

// Next returns the entry behind one of the list, 0 behind the last.
func (s *Set[T]) Next(l List, at uint32) uint32 {
	if next := s.At(at).next; next != l.root {
		return next
	}
	return 0
}

// PushBack appends an entry that is in no list.
func (s *Set[T]) PushBack(l List, at uint32) { s.link(l.root, at) }

// InsertBefore puts an entry that is in no list in front of another, at the back for 0.
func (s *Set[T]) InsertBefore(l List, other, at uint32) {
	if other == 0 {
		other = l.root
	}
	s.link(other, at)
}

// Unlink takes an entry out of the list it is in.
func (s *Set[T]) Unlink(at uint32) {
	e := s.At(at)
	s.At(e.prev).next = e.next
	s.At(e.next).prev = e.prev
	e.prev, e.next = 0, 0
}

// Linked reports whether an entry is in a list.
func (s *Set[T]) Linked(at uint32) bool { return s.At(at).next != 0 }

// MoveAll appends all entries of src to dst, in order and in constant time.
func (s *Set[T]) MoveAll(dst, src List) {
	from, to := s.At(src.root), s.At(dst.root)
	if from.next == src.root {
		return
	}
	s.At(to.prev).next, s.At(from.next).prev = from.next, to.prev
	s.At(from.prev).next, to.prev = dst.root, from.prev
	from.prev, from.next = src.root, src.root
}

// link puts an entry in front of another or of a root.
func (s *Set[T]) link(next, at uint32) {
	n, e := s.At(next), s.At(at)
	e.prev, e.next = n.prev, next
	s.At(n.prev).next = at
	n.prev = at
}
