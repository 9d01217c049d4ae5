package transportkit

import (
	"sync"
	"time"
)

// Seldom bounds the lines of a log that peers cause: one a minute for each peer. Further peers than maxSeldom share one. The zero value
// is ready. Safe for concurrent use.
type Seldom struct {
	mu sync.Mutex
	of map[string]*told
}

// told is when a line was logged last, and how often it was not since.
type told struct {
	last time.Time
	more int
}

const (
	// SeldomEvery is the least time between two lines about one peer.
	SeldomEvery = time.Minute
	maxSeldom   = 256
)

// Tell reports whether to log a line about a peer now, and how many were not logged since the last one.
func (s *Seldom) Tell(peer string, now time.Time) (more int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[peer]
	if o == nil && len(s.of) >= maxSeldom {
		peer = ""
		o = s.of[peer]
	}
	if o == nil {
		if s.of == nil {
			s.of = map[string]*told{}
		}
		o = new(told)
		s.of[peer] = o
	}
	if !o.last.IsZero() && now.Sub(o.last) < SeldomEvery {
		o.more++
		return 0, false
	}
	more, o.more, o.last = o.more, 0, now
	return more, true
}
