package kvevents

import "sync"

// event is what is to be published. It holds its strings as long as it waits.
type event struct {
	stored             bool
	tenant, key, group string
}

// queue holds events that wait, in a ring that grows up to a bound. Safe for concurrent
// use.
type queue struct {
	mu      sync.Mutex
	ring    []event
	head, n int
	max     int
	dropped uint64 // since the last take
	closed  bool
	// filled has a token whenever there may be something to take.
	filled chan struct{}
}

func newQueue(capacity int) *queue { return &queue{max: capacity, filled: make(chan struct{}, 1)} }

// add appends an event. When the queue is full the oldest one makes way, and it reports
// that.
func (q *queue) add(e event) (dropped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.n == q.max {
		q.pop()
		q.dropped++
		dropped = true
	}
	if q.n == len(q.ring) {
		q.grow(min(max(2*q.n, 64), q.max))
	}
	q.ring[(q.head+q.n)%len(q.ring)] = e
	q.n++
	q.signal()
	return dropped
}

func (q *queue) pop() event {
	e := q.ring[q.head]
	q.ring[q.head] = event{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return e
}

func (q *queue) grow(size int) {
	ring := make([]event, size)
	head := copy(ring, q.ring[q.head:])
	copy(ring[head:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

func (q *queue) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// take moves the oldest events into dst, up to its capacity, and returns how many made way
// since the last take, all of them older than these. It waits for the first; more is false
// when the queue is closed and empty.
func (q *queue) take(dst []event) (out []event, dropped uint64, more bool) {
	for range q.filled {
		out, dropped, more = q.tryTake(dst)
		if len(out) > 0 || !more {
			break
		}
	}
	return out, dropped, more
}

func (q *queue) tryTake(dst []event) (out []event, dropped uint64, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out = dst[:0]
	for q.n > 0 && len(out) < cap(dst) {
		out = append(out, q.pop())
	}
	dropped, q.dropped = q.dropped, 0
	if q.n > 0 || q.closed {
		q.signal()
	}
	return out, dropped, len(out) > 0 || !q.closed
}

// close lets take come to an end. What is added later is lost.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
