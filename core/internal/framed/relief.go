package framed

import (
	"sync"
	"time"
)

// onItsOwn is how long a call may keep the next ones from being read while the goroutine that
// read it works on it. The delay is at most twice that.
const onItsOwn = 2 * time.Millisecond

// relief lets the goroutine that reads a connection work on a call. If the call lasts, another
// goroutine takes over the reading. The clock that checks this runs only while calls arrive, so
// that a call pays for no more than two uncontended locks.
type relief struct {
	// takeOver reads on, until the connection ends. Set it before the first call.
	takeOver func()

	mu      sync.Mutex
	working bool
	count   uint64 // of calls begun
	seen    uint64 // of them at the last look
	clock   *time.Timer
	ticking bool
	stopped bool
}

// during runs work. It reports whether another goroutine has taken over meanwhile.
func (r *relief) during(work func()) (relieved bool) {
	r.mu.Lock()
	r.working = true
	r.count++
	mine := r.count
	if !r.ticking && !r.stopped {
		r.ticking = true
		if r.clock == nil {
			r.clock = time.AfterFunc(onItsOwn, r.look)
		} else {
			r.clock.Reset(onItsOwn)
		}
	}
	r.mu.Unlock()
	work()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count != mine || !r.working {
		return true
	}
	r.working = false
	return false
}

// look takes over where the call of the last look still lasts.
func (r *relief) look() {
	r.mu.Lock()
	same := r.count == r.seen
	r.seen = r.count
	take := same && r.working
	if take {
		r.working = false
	}
	if r.ticking = !same && !r.stopped; r.ticking {
		r.clock.Reset(onItsOwn)
	}
	r.mu.Unlock()
	if take {
		r.takeOver()
	}
}

// stop ends the clock.
func (r *relief) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if r.clock != nil {
		r.clock.Stop()
	}
}
