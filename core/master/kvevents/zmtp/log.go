package zmtp

import "sync"

// log keeps the latest messages for subscribers. It is safe for concurrent use.
type log struct {
	mu sync.Mutex
	// ring holds the messages first to next-1, each at its number modulo the length. It
	// grows up to maxMessages.
	ring        [][]byte
	first, next uint64
	bytes       int
	maxMessages int
	maxBytes    int
	wake        chan struct{} // closed by the next change; nil while no goroutine waits
	ended       chan struct{} // closed when no more messages come
}

func newLog(maxMessages, maxBytes int) *log {
	return &log{maxMessages: maxMessages, maxBytes: maxBytes, ended: make(chan struct{})}
}

// add appends a message, which must not change any more, and drops the oldest ones beyond the
// bounds. The newest stays, however large.
func (l *log) add(m []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() {
		return
	}
	l.bytes += len(m)
	for l.first < l.next && (l.bytes > l.maxBytes || l.next-l.first == uint64(l.maxMessages)) {
		l.bytes -= len(l.at(l.first))
		l.set(l.first, nil)
		l.first++
	}
	if n := len(l.ring); int(l.next-l.first) == n {
		l.grow(min(max(2*n, 16), l.maxMessages))
	}
	l.set(l.next, m)
	l.next++
	l.rouse()
}

func (l *log) at(i uint64) []byte     { return l.ring[i%uint64(len(l.ring))] }
func (l *log) set(i uint64, m []byte) { l.ring[i%uint64(len(l.ring))] = m }

func (l *log) grow(n int) {
	old := l.ring
	l.ring = make([][]byte, n)
	for i := l.first; i < l.next; i++ {
		l.set(i, old[i%uint64(len(old))])
	}
}

func (l *log) rouse() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// over reports whether the log was closed.
func (l *log) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// close ends the log. Readers can still read the messages in it. close can be called again.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over() {
		close(l.ended)
		l.rouse()
	}
}

// end is the number at which a new reader begins: after all messages in the log.
func (l *log) end() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// reading is the result of read.
type reading struct {
	messages [][]byte
	// next is the number at which to continue, and missed the number of messages that were
	// dropped before they could be read.
	next, missed uint64
	// If there are no messages, wait is closed when it is worth reading again. done means that
	// no more messages will come.
	wait <-chan struct{}
	done bool
}

// readBatch is the most messages of one read.
const readBatch = 64

// read appends the messages from number at on to dst, which is empty.
func (l *log) read(at uint64, dst [][]byte) (r reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < l.first {
		r.missed, at = l.first-at, l.first
	}
	for ; at < l.next && len(dst) < readBatch; at++ {
		dst = append(dst, l.at(at))
	}
	r.messages, r.next = dst, at
	switch {
	case len(dst) > 0:
	case l.over():
		r.done = true
	default:
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		r.wait = l.wake
	}
	return r
}
