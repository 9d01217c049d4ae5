package pathkit

import (
	"iter"
	"time"
)

const (
	// sweepEvery bounds how often the deadlines of a path are looked through.
	sweepEvery = time.Millisecond
	// looks is how often the progress of a path is measured within a stall limit. A stall is
	// noticed that much later at most.
	looks = 16
	// asleep is how late a sweep has to be for the process to have stood still, together with
	// everything that could have moved bytes.
	asleep = time.Second
)

// Meter has progress measured by f as well, which returns a number that changes whenever the path
// moves bytes: what its connections sent that the peer acknowledged, and what they received.
// Operations that end well count without it. f is called with the lock held, a few times within a
// stall limit and not while nothing is in flight. The lock is held.
func (b *Base[R, T, O]) Meter(f func() uint64) { b.meter = f }

// Patience makes stall limits so many times as long: for a peer that is so far that what is lost on
// the way is sent again only after seconds. It is 1 before the first call. The lock is held.
func (b *Base[R, T, O]) Patience(times int) { b.patience = times }

// setTimer arranges for sweep to run at a deadline. The lock is held.
func (b *Base[R, T, O]) setTimer(at, now time.Time) {
	b.timerAt = at
	b.timer.Reset(max(at.Sub(now), sweepEvery))
}

// sweep has the operations ended whose deadline has passed, or that are stalled.
func (b *Base[R, T, O]) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := time.Now()
	b.progress(now)
	b.expire(b.due(now))
	b.timerAt = time.Time{}
	var next time.Time
	for _, o := range b.active {
		if r := o.record(); !b.overdue(r, now) {
			if at := r.look(now); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	if !next.IsZero() {
		b.setTimer(next, now)
	}
}

// progress notes whether the path has moved anything since the last sweep. A process that stood
// still meanwhile cannot tell, and so gives its peers the benefit of the doubt.
func (b *Base[R, T, O]) progress(now time.Time) {
	total := b.finished
	if b.meter != nil {
		total += b.meter()
	}
	if total != b.measured || !b.timerAt.IsZero() && now.Sub(b.timerAt) > asleep {
		b.measured, b.moved = total, now
	}
}

// look is when an operation is to be looked at next.
func (r *Record) look(now time.Time) time.Time {
	if r.Stall <= 0 {
		return r.Deadline
	}
	if at := now.Add(r.Stall / looks); at.Before(r.Deadline) {
		return at
	}
	return r.Deadline
}

// stalled reports whether the path has moved nothing for the stall limit of an operation.
func (b *Base[R, T, O]) stalled(r *Record, now time.Time) bool {
	since := r.began
	if b.moved.After(since) {
		since = b.moved
	}
	return r.Stall > 0 && now.Sub(since) >= b.limit(r)
}

// limit is how long the path may move nothing while an operation is in flight.
func (b *Base[R, T, O]) limit(r *Record) time.Duration {
	return r.Stall * time.Duration(max(b.patience, 1))
}

func (b *Base[R, T, O]) overdue(r *Record, now time.Time) bool {
	return r.Late(now) || b.stalled(r, now)
}

// due yields the active operations whose deadline has passed, or that are stalled.
func (b *Base[R, T, O]) due(now time.Time) iter.Seq[O] {
	return func(yield func(O) bool) {
		for o := range b.Active() {
			if b.overdue(o.record(), now) && !yield(o) {
				return
			}
		}
	}
}
