package pluginhost

import (
	"math/rand/v2"
	"slices"
	"time"
)

// budget limits restarts: at most max within a window.
type budget struct {
	max    int
	window time.Duration
	spent  []time.Time
}

// take spends one restart. It returns how many were made within the window, this one
// included, or false when there is none left.
func (b *budget) take(now time.Time) (int, bool) {
	b.spent = slices.DeleteFunc(b.spent, func(t time.Time) bool { return now.Sub(t) >= b.window })
	if len(b.spent) >= b.max {
		return 0, false
	}
	b.spent = append(b.spent, now)
	return len(b.spent), true
}

// pause is how long to wait before the nth restart in a row, counted from 1. It doubles from
// shortest to longest. A jitter of a quarter keeps plugins that ended together from restarting
// together.
func pause(n int, shortest, longest time.Duration) time.Duration {
	d := shortest
	for ; n > 1 && d < longest; n-- {
		d *= 2
	}
	d = min(d, longest)
	return d - d/4 + rand.N(2*(d/4)+1)
}
