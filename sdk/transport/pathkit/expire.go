package pathkit

import (
	"iter"
	"time"
)

// sweepEvery bounds how often the deadlines of a path are looked through.
const sweepEvery = time.Millisecond

// setTimer arranges for sweep to run at a deadline. The lock is held.
func (b *Base[R, T, O]) setTimer(at, now time.Time) {
	b.timerAt = at
	b.timer.Reset(max(at.Sub(now), sweepEvery))
}

// sweep has the operations ended whose deadline has passed.
func (b *Base[R, T, O]) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := time.Now()
	b.expire(b.due(now))
	b.timerAt = time.Time{}
	var next time.Time
	for _, o := range b.active {
		if r := o.record(); !r.Late(now) && (next.IsZero() || r.Deadline.Before(next)) {
			next = r.Deadline
		}
	}
	if !next.IsZero() {
		b.setTimer(next, now)
	}
}

// due yields the active operations whose deadline has passed.
func (b *Base[R, T, O]) due(now time.Time) iter.Seq[O] {
	return func(yield func(O) bool) {
		for o := range b.Active() {
			if o.record().Late(now) && !yield(o) {
				return
			}
		}
	}
}
