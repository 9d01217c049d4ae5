package rail

import (
	"iter"
)

// Fail ends an operation that is in no queue, unless it has failed before. The caller completes it.
func (o *Op) Fail(err error) { o.fail(err); o.stage = opEnded }

// fail notes the first failure.
func (o *Op) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

func (o *Op) size() uint64 { return uint64(len(o.Local)) }

// maxTries is how often an operation is begun again because of the fault of another one.
const maxTries = 3

// insert puts o before next, or at the end for nil.
func (l *list) insert(o, next *Op) {
	prev := l.tail
	if next != nil {
		prev = next.prev
	}
	o.prev, o.next = prev, next
	l.link(prev, o)
	l.link(o, next)
}

func (l *list) remove(o *Op) {
	l.link(o.prev, o.next)
	o.prev, o.next = nil, nil
}

// link makes b follow a; nil is the end of the list.
func (l *list) link(a, b *Op) {
	if a != nil {
		a.next = b
	} else {
		l.head = b
	}
	if b != nil {
		b.prev = a
	} else {
		l.tail = a
	}
}

func (l *Ended) add(o *Op) {
	o.stage = opEnded
	l.insert(o, nil)
}

// All takes out the operations. They may be used again once they were completed.
func (l *Ended) All() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		for o := l.head; o != nil; o = l.head {
			l.remove(o)
			if !yield(o) {
				return
			}
		}
	}
}

// finish completes the operations. No lock is held.
func (l *Ended) finish() {
	var locked Path
	for o := range l.All() {
		if p := o.Path; p != locked {
			if locked != nil {
				locked.Unlock()
			}
			p.Lock()
			locked = p
		}
		locked.Finish(o)
	}
	if locked != nil {
		locked.Unlock()
	}
}
