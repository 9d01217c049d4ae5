package rail

import (
	"time"
)

const (
	// speedWeight is how much a new sample counts.
	speedWeight = 1.0 / 16
	// speedSample is the least number of bytes that say something about speed: an operation
	// of less is mostly latency.
	speedSample = 64 << 10
	// unknownSpeed is assumed of rails as long as none was measured, in bytes per second.
	unknownSpeed = 1e9
)

// speed estimates how fast a rail is, as an exponentially weighted mean.
//
// A slice goes where it is expected to be done first: (bytes in flight + its own) / speed.
// This is the rule of the slice spraying of upstream's TENT, and so are the limits of 0.1
// and 10 times the nominal speed. A sample is the reverse of the same quotient: the
// bytes that were in flight when the operation began, with its own, over the time it took. So the
// time spent waiting behind other slices does not count as slowness.
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

// guess is the mean, or what is assumed before there is one: the nominal speed, else that
// of the fastest rail, so that a new one is tried.
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
