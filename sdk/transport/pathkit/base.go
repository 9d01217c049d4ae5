package pathkit

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Limits bounds what one path has under way.
type Limits struct {
	// Ops is how many operations may be accepted and not reaped yet, at least 1. Completions
	// that nobody fetched count, so that they are bounded too.
	Ops int
	// Bytes is how many bytes the operations under way may have, 0 for any number. One
	// operation alone may have more.
	Bytes int64
	// Timeout is the time that an operation without a deadline gets, more than 0.
	Timeout time.Duration
	// Rails is how many rails the path has: an operation may name rail 1 to Rails, or none.
	Rails int
}

// Base is the state of a path, to be embedded in it. R is what the transport keeps of an
// imported key, T its operation. Use Init before anything else; do not copy.
type Base[R, T any, O Operation[T]] struct {
	mu     *sync.Mutex
	name   string
	limits Limits
	expire func(due iter.Seq[O])
	ready  chan struct{} // holds a token when there may be something to reap
	// pending is how many completions can be reaped.
	pending atomic.Int64

	// Guarded by mu.
	closed  bool
	keys    []imported[R]
	ids     map[string]transport.RemoteID
	active  []O
	bytes   int64 // of active
	free    []O
	done    []transport.Completion
	reaped  int // how much of done was given out
	deliver func(transport.Completion) bool
	timer   *time.Timer
	timerAt time.Time // when timer runs sweep; zero for not at all

	// What is known of the path's progress: see progress.
	meter    func() uint64
	patience int       // how many times a stall limit counts; 0 for once
	finished uint64    // operations that ended well
	measured uint64    // finished and meter at the last sweep
	moved    time.Time // the last sweep that found them changed
}

// Init makes a Base ready. mu is the lock of the path; name begins the text of errors
// ("transport/x: path to ADDRESS"). expire is called with the lock held and has to see to it that each
// operation in due ends, with ErrOverdue; it may call Finish for them, or leave an operation
// to be finished later by who works with its memory.
func (b *Base[R, T, O]) Init(mu *sync.Mutex, name string, limits Limits, expire func(due iter.Seq[O])) {
	b.mu, b.name, b.limits, b.expire = mu, name, limits, expire
	b.ready = make(chan struct{}, 1)
	b.ids = map[string]transport.RemoteID{}
	b.timer = time.AfterFunc(time.Hour, b.sweep)
	b.timer.Stop()
}

// Name returns the name given to Init.
func (b *Base[R, T, O]) Name() string { return b.name }

// Closed reports whether Shut was called. The lock is held.
func (b *Base[R, T, O]) Closed() bool { return b.closed }

// Shut closes the path to new keys and operations and stops the clock: deadlines count no
// more. It reports whether this call was the first. The caller holds the lock, and ends
// what is Active with ErrClosed. Completions can still be reaped.
func (b *Base[R, T, O]) Shut() bool {
	if b.closed {
		return false
	}
	b.closed = true
	b.timer.Stop()
	b.Signal() // Reap may have to say that this is the end.
	return true
}
