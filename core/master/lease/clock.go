package lease

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

const (
	// tick is how often Run notes that the process runs.
	tick = 100 * time.Millisecond
	// patience is how far the clock goes on without a tick.
	patience = 500 * time.Millisecond
)

// Clock gives instants. It stands still while the process does not run (SIGSTOP, a paused virtual
// machine, starvation) or does not act, so that no deadline passes while it could not be met: every pause makes all
// deadlines later by its length, less than a second of which may be missing. It needs Run for that;
// without, it follows the monotonic clock. Copies are the same clock. Safe for concurrent use.
type Clock struct{ *state }

type state struct {
	epoch time.Time
	raw   func() Instant // the monotonic clock since epoch, at least 1
	// behind is how long the clock has stood still, and limit the last instant that it gives before
	// the next tick. A tick writes behind first, Now reads limit first: with the limit of a tick,
	// Now knows every pause that the tick found.
	behind, limit atomic.Int64
}

// NewClock starts a clock.
func NewClock() Clock {
	epoch := time.Now()
	return newClock(epoch, func() Instant { return Instant(time.Since(epoch)) + 1 })
}

func newClock(epoch time.Time, raw func() Instant) Clock {
	s := &state{epoch: epoch, raw: raw}
	s.limit.Store(math.MaxInt64)
	return Clock{s}
}

// Now returns the present instant, at least 1. It never returns less than a call that ended before.
func (c Clock) Now() Instant {
	limit, behind := c.limit.Load(), c.behind.Load()
	return min(c.raw()-Instant(behind), Instant(limit))
}

// Time returns the wall clock's reading of an instant since the last pause, the zero time for the
// zero instant. For an instant before a pause the reading is too late by its length.
func (c Clock) Time(i Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(int64(i) + c.behind.Load()))
}

// Stamp returns Now as a time, for what compares times. It stands still as Now does, so it is behind
// the wall clock by all pauses.
func (c Clock) Stamp() time.Time { return c.epoch.Add(time.Duration(c.Now())) }

// Run keeps the clock in step with the process until ctx ends, while acts reports true. It calls paused,
// from its goroutine, with the length of each pause that it finds. It runs at most once at a time.
func (c Clock) Run(ctx context.Context, acts func() bool, paused func(time.Duration)) {
	defer c.limit.Store(math.MaxInt64)
	t := time.NewTicker(tick)
	defer t.Stop()
	for first := true; ; first = false {
		if first || acts() { // The first one bounds the clock of a process that does not act yet.
			if gap := c.tick(); gap > 0 {
				paused(gap)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// tick takes out what has passed beyond the limit, and returns for how long the process did not run,
// 0 if it ran.
func (c Clock) tick() time.Duration {
	now, limit := c.raw()-Instant(c.behind.Load()), Instant(c.limit.Load())
	late := max(now.Sub(limit), 0)
	c.behind.Add(int64(late))
	c.limit.Store(int64(min(now, limit).Add(patience)))
	if late == 0 {
		return 0
	}
	return late + patience
}
