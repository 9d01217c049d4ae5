package foreign

import (
	"sync"
	"time"
)

const (
	// quiet is how long further events of a kind are only counted after a line in the log.
	quiet = time.Minute
	// maxKinds bounds the kinds of events that are remembered.
	maxKinds = 256
)

// Seldom counts events that repeat, so that the log has one line a minute for each kind. The zero value
// is ready to use. Safe for concurrent use.
type Seldom[K comparable] struct {
	mu   sync.Mutex
	seen map[K]*repeats
}

type repeats struct {
	told time.Time
	more int // since then
}

// Count counts an event. due reports whether a line is due, which then says how many more there were
// since the last line. Events of further kinds have no line while maxKinds had one in the last minute.
func (s *Seldom[K]) Count(kind K, now time.Time) (more int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.seen[kind]
	switch {
	case r == nil:
		return 0, s.enter(kind, now)
	case now.Sub(r.told) < quiet:
		r.more++
		return 0, false
	}
	more, r.more, r.told = r.more, 0, now
	return more, true
}

// enter remembers a kind, in place of those whose next event has a line anyway. It has mu held.
func (s *Seldom[K]) enter(kind K, now time.Time) bool {
	if s.seen == nil {
		s.seen = map[K]*repeats{}
	}
	if len(s.seen) >= maxKinds {
		for k, r := range s.seen {
			if now.Sub(r.told) >= quiet {
				delete(s.seen, k)
			}
		}
	}
	if len(s.seen) >= maxKinds {
		return false
	}
	s.seen[kind] = &repeats{told: now}
	return true
}
