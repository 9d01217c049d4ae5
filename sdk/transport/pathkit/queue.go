package pathkit

// Link is the place of an element in a Queue. Embed it in the element.
type Link[T any] struct {
	element    *T
	queue      *Queue[T] // that the element is in, nil for none
	prev, next *Link[T]
}

// Queued reports whether the element is in a queue.
func (l *Link[T]) Queued() bool { return l.queue != nil }

// Next returns the element that follows in the queue, nil for none.
func (l *Link[T]) Next() *T { return l.next.get() }

func (l *Link[T]) get() *T {
	if l == nil {
		return nil
	}
	return l.element
}

// Queue is a list of elements in the order in which they were pushed. It allocates nothing. The
// zero value is empty; do not copy a queue that is not.
type Queue[T any] struct{ first, last *Link[T] }

// First returns the first element, nil for none.
func (q *Queue[T]) First() *T { return q.first.get() }

// Push appends an element that is in no queue; link is the one that it embeds.
func (q *Queue[T]) Push(element *T, link *Link[T]) {
	*link = Link[T]{element: element, queue: q, prev: q.last}
	if q.last != nil {
		q.last.next = link
	} else {
		q.first = link
	}
	q.last = link
}

// Remove takes an element out, if it is in the queue.
func (q *Queue[T]) Remove(link *Link[T]) {
	if link.queue != q {
		return
	}
	if link.prev != nil {
		link.prev.next = link.next
	} else {
		q.first = link.next
	}
	if link.next != nil {
		link.next.prev = link.prev
	} else {
		q.last = link.prev
	}
	*link = Link[T]{}
}
