package oracle

import "container/list"

// lru is the textbook list: the most recent block in front.
type lru struct {
	order *list.List
	at    map[uint64]*list.Element
}

func newLRU() lru { return lru{order: list.New(), at: make(map[uint64]*list.Element)} }

func (l *lru) len() int { return l.order.Len() }

func (l *lru) has(b uint64) bool {
	_, ok := l.at[b]
	return ok
}

// touch makes b the most recent and reports whether it is there.
func (l *lru) touch(b uint64) bool {
	e, ok := l.at[b]
	if ok {
		l.order.MoveToFront(e)
	}
	return ok
}

func (l *lru) add(b uint64) { l.at[b] = l.order.PushFront(b) }

func (l *lru) dropOldest() {
	e := l.order.Back()
	delete(l.at, e.Value.(uint64))
	l.order.Remove(e)
}
