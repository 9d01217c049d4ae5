package pathkit

import (
	"iter"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
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

	// haste is how long a peer may be silent until a hasty read leaves it, and drowsy is asleep for
	// such a read.
	haste, drowsy = 300 * time.Millisecond, 150 * time.Millisecond
	// connecting is how many times that a peer gets that has not answered yet on this path: making a
	// connection takes several round trips, of which none was measured.
	connecting = 3
)

// Meter has progress measured by f as well, which returns a number that changes whenever the path
// moves bytes: what its connections sent that the peer acknowledged, and what they received.
// Operations that end well count without it. f is called with the lock held, a few times within a
// stall limit and not while nothing is in flight. The lock is held.
func (b *Base[R, T, O]) Meter(f func() uint64) { b.meter = f }

// Hearing has reads be hasty (see transport.Op.Hasty), on a path that learns of its peer through the
// peer's process. f returns a number that changes whenever bytes of the peer arrive; nil where only
// operations that end well tell. What the peer's kernel acknowledges must not count: it does so for
// a process that stands still as well. f is called as that of Meter. The lock is held.
func (b *Base[R, T, O]) Hearing(f func() uint64) { b.hearing, b.hasty = f, true }

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
	late := time.Duration(0)
	if !b.timerAt.IsZero() {
		late = now.Sub(b.timerAt)
	}
	b.moved.look(b.finished, b.meter, late > asleep, now)
	b.heard.look(b.finished, b.hearing, late > drowsy, now)
}

// look is when an operation is to be looked at next.
func (r *Record) look(now time.Time) time.Time {
	every := r.Stall
	switch {
	case r.hasty():
		every = r.haste()
	case every <= 0:
		return r.Deadline
	}
	if at := now.Add(every / looks); at.Before(r.Deadline) {
		return at
	}
	return r.Deadline
}

// stalled reports whether the path has moved nothing for the stall limit of an operation.
func (b *Base[R, T, O]) stalled(r *Record, now time.Time) bool {
	return r.Stall > 0 && now.Sub(r.since(b.moved)) >= b.limit(r)
}

// left reports whether a hasty read is to leave a peer of which nothing was heard.
func (b *Base[R, T, O]) left(r *Record, now time.Time) bool {
	return b.hasty && r.hasty() && now.Sub(r.since(b.heard)) >= b.silence(r)
}

// since is from when on a silence counts for an operation.
func (r *Record) since(p pulse) time.Time {
	if p.at.After(r.began) {
		return p.at
	}
	return r.began
}

func (r *Record) hasty() bool { return r.Hasty && r.Kind == transport.Read }

// haste is how long a near peer may be silent until a hasty read leaves it.
func (r *Record) haste() time.Duration {
	if r.Stall > 0 { // What is left of the time is for the other copy.
		return min(haste, r.Stall/2)
	}
	return haste
}

// silence is haste for the peer of the path. The patience is that of before the operation: a peer that
// stands still acknowledges so late that it looks as if packets were lost.
func (b *Base[R, T, O]) silence(r *Record) time.Duration {
	times := max(r.times, 1)
	if b.finished == 0 {
		times = max(times, connecting)
	}
	return r.haste() * time.Duration(times)
}

// limit is how long the path may move nothing while an operation is in flight.
func (b *Base[R, T, O]) limit(r *Record) time.Duration {
	return r.Stall * time.Duration(max(b.patience, 1))
}

func (b *Base[R, T, O]) overdue(r *Record, now time.Time) bool {
	return r.Late(now) || b.stalled(r, now) || b.left(r, now)
}

// due yields the active operations whose deadline has passed, or that are stalled or leave.
func (b *Base[R, T, O]) due(now time.Time) iter.Seq[O] {
	return func(yield func(O) bool) {
		for o := range b.Active() {
			if b.overdue(o.record(), now) && !yield(o) {
				return
			}
		}
	}
}
