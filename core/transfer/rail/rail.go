// Package rail keeps the rails of a path: their speed, health and bytes in flight. It chooses a
// rail for each slice.
package rail

import (
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRails bounds the rails of one path that are used: 16 devices on each side.
const maxRails = 256

// rail is one local device and one device of the peer, or the path as such where its transport has
// no rails.
type rail struct {
	transport.Rail
	index  int
	health health
	speed  speed
	slices int   // in flight
	bytes  int64 // in flight
	full   bool  // the transport refused a slice for lack of space
	turn   uint64

	moved, ended, errors uint64
	last                 time.Time // when a slice last arrived
}

// Claim is what the rails of a path know of a slice, and what they decided about it.
type Claim struct {
	Started  time.Time // when the current attempt began
	Deadline time.Time // of the current attempt
	Tried    Bitset    // the rails on which the slice failed
	Force    bool      // the slice may take a paused rail, since no other is left
	Crowded  bool      // no rail can move the slice soon enough

	Rail   *rail // that counts the slice
	size   int64
	queued int64         // bytes in flight on the rail when the slice was added, with its own
	Eta    time.Duration // how long the slice was expected to take when it was added to its rail
}

// Bitset is a set of small numbers.
type Bitset [maxRails / 64]uint64

func (b *Bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *Bitset) add(i int) { b[i/64] |= 1 << (i % 64) }

// wholeShare is how many operations at once a returning rail must have earned to be whole again.
const wholeShare = 64

// health decides whether a rail is used: after some errors in a window it is paused, and then
// returns gradually. Upstream pauses for 30 s after 5 errors in 5 s and returns at once; here the
// pause begins short and doubles while it does not help, so that a rail with a short fault is back
// soon and a broken one costs little.
type health struct {
	fails []time.Time // the last errors that count, oldest first
	// paused and until are the last pause; what began before its end does not count against the
	// rail again.
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

// failed notes an error of an operation that began at started, and reports whether it began a
// pause.
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

// worked notes a success of an operation that began at started, and reports whether the rail
// recovered completely by it. A success during the pause, of a caller that had no other rail, ends
// the pause.
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

const (
	// speedWeight is how much a new sample counts.
	speedWeight = 1.0 / 16
	// speedSample is the least number of bytes that say something about speed: an operation of less
	// is mostly latency.
	speedSample = 64 << 10
	// unknownSpeed is assumed of rails as long as none was measured, in bytes per second.
	unknownSpeed = 1e9
)

// speed estimates how fast a rail is, as an exponentially weighted mean.
//
// A slice goes where it is expected to be done first: (bytes in flight + its own) / speed. This is
// the rule of the slice spraying of upstream's TENT, and so are the limits of 0.1 and 10 times the
// nominal speed. A sample is the reverse of the same quotient: the bytes that were in flight when
// the operation began, with its own, over the time it took. So the time spent waiting behind other
// slices does not count as slowness.
type speed struct {
	mean    float64 // bytes per second, 0 for unknown
	peak    float64 // the best recent speed, which a rail reaches with enough in flight
	nominal float64 // the same, 0 for unknown
}

func (s *speed) sample(bytes int64, took time.Duration) {
	if bytes < speedSample || took <= 0 {
		return
	}
	v := float64(bytes) / took.Seconds()
	if s.nominal > 0 {
		v = min(max(v, s.nominal/10), s.nominal*10)
	}
	if s.mean == 0 {
		s.mean, s.peak = v, v
		return
	}
	s.mean += speedWeight * (v - s.mean)
	s.peak = max(v, s.peak-speedWeight*(s.peak-s.mean))
}

// eta is how long bytes in flight take, 0 where the speed is not known, at most an hour.
func (s *speed) eta(bytes int64) time.Duration {
	if s.mean == 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/s.mean, 3600) * float64(time.Second))
}

// guess is the mean, or what is assumed before there is one: the nominal speed, else that of the
// fastest rail, so that a new one is tried.
func (s *speed) guess(fastest float64) float64 {
	switch {
	case s.mean > 0:
		return s.mean
	case s.nominal > 0:
		return s.nominal
	case fastest > 0:
		return fastest
	}
	return unknownSpeed
}
