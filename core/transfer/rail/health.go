package rail

import (
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
)

// wholeShare is how many operations at once a returning rail must have earned to be
// whole again.
const wholeShare = 64

// health decides whether a rail is used: after some errors in a window it is paused, and
// then returns gradually. Upstream pauses for 30 s after 5 errors in 5 s and returns at
// once; here the pause begins short and doubles while it does not help, so that a rail
// with a short fault is back soon and a broken one costs little.
type health struct {
	fails []time.Time // the last errors that count, oldest first
	// paused and until are the last pause; what began before its end does not count
	// against the rail again.
	paused, until time.Time
	length        time.Duration // of the last pause, 0 when the rail has recovered completely
	// share is how many operations a returning rail may have in flight; 0 for any number.
	share  int
	pauses uint64
}

// open reports whether one more operation may be added to those in flight.
func (h *health) open(now time.Time, underway int) bool {
	return !now.Before(h.until) && (h.share == 0 || underway < h.share)
}

// failed notes an error of an operation that began at started, and reports whether it
// began a pause.
func (h *health) failed(c *settings.Config, started, now time.Time) bool {
	switch {
	case started.Before(h.until):
		return false
	case h.share > 0:
		h.pause(c, now)
		return true
	}
	for len(h.fails) > 0 && now.Sub(h.fails[0]) >= c.RailWindow {
		h.fails = h.fails[1:]
	}
	if h.fails = append(h.fails, now); len(h.fails) < c.RailErrors {
		return false
	}
	h.pause(c, now)
	return true
}

func (h *health) pause(c *settings.Config, now time.Time) {
	h.length = min(max(2*h.length, c.RailPause), c.MaxRailPause)
	h.paused, h.until = now, now.Add(h.length)
	h.fails, h.share = nil, 1
	h.pauses++
}

// worked notes a success of an operation that began at started, and reports whether the
// rail recovered completely by it. A success during the pause, of a caller that had no other rail,
// ends the pause.
func (h *health) worked(started, now time.Time) bool {
	if h.share == 0 || started.Before(h.paused) {
		return false
	}
	if now.Before(h.until) {
		h.until = now
	}
	if h.share *= 2; h.share < wholeShare {
		return false
	}
	h.share, h.length = 0, 0
	return true
}

// back notes that the transport reports the rail as up again, which ends a pause: operations failed
// because it was down.
func (h *health) back(now time.Time) {
	h.fails, h.share = nil, 1
	if now.Before(h.until) {
		h.until = now
	}
}

// state is the name used in metrics.
func (h *health) state(now time.Time) string {
	switch {
	case now.Before(h.until):
		return "paused"
	case h.share > 0:
		return "returning"
	}
	return "up"
}
