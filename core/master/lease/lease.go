// Package lease holds the master's notion of time: instants as plain numbers, so that
// millions of objects can each keep two of them in eight bytes.
package lease

import (
	"math"
	"time"
)

// Instant is a moment in nanoseconds on the monotonic clock of one Clock. Zero lies before
// every instant the clock gives and stands for "never granted".
type Instant int64

// Add returns the instant d later. It saturates, so a huge timeout means "never".
func (i Instant) Add(d time.Duration) Instant {
	if d > 0 && i > math.MaxInt64-Instant(d) {
		return math.MaxInt64
	}
	return i + Instant(d)
}

// Sub returns how much later i is than j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
