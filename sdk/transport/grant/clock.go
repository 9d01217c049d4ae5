package grant

import (
	"sync/atomic"
	"time"
)

// drift is by how much two clocks may move apart, as a part of the time: more than computers' clocks do, also while they
// are being corrected.
const drift = 1.0 / 2000

// Clock bounds what the clock of another process shows, from answers in which that process said so. It is safe for
// concurrent use, and allocates for what it hears only.
//
// The bound is late by at most the time that the best answer took, and by a 2000th of the time since then: the other clock
// does not show more than the bound.
type Clock struct {
	heard atomic.Pointer[reading]
}

// reading says that the other clock shows at most ahead more than this one did at an instant.
type reading struct{ ahead, at time.Duration }

// Hear takes an answer: what the other clock showed, some time between sent and now of this process's clock.
func (c *Clock) Hear(sent, now, shown time.Duration) {
	for {
		old := c.heard.Load()
		fresh := &reading{ahead: shown - sent, at: sent} // The clocks drift during the call as well.
		if old != nil && old.bound(now) < fresh.bound(now) {
			return
		}
		if c.heard.CompareAndSwap(old, fresh) {
			return
		}
	}
}

func (r *reading) bound(now time.Duration) time.Duration {
	return now + r.ahead + time.Duration(drift*float64(max(now-r.at, 0)))
}

// Latest returns the most that the other clock shows when this one shows now; false before the first answer.
func (c *Clock) Latest(now time.Duration) (time.Duration, bool) {
	r := c.heard.Load()
	if r == nil {
		return 0, false
	}
	return r.bound(now), true
}
