package busypoll

import (
	"sync"
	"sync/atomic"
	"time"
)

// side is one direction of a Conn.
type side struct {
	busy  sync.Mutex    // held by the one call that uses the side
	ready chan struct{} // holds a token when another try is worthwhile
	late  atomic.Bool   // the deadline has passed

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
}

func (s *side) deadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = t
	if s.timer != nil {
		s.timer.Stop()
	}
	left := time.Until(t)
	s.late.Store(!t.IsZero() && left <= 0)
	switch {
	case t.IsZero():
	case left <= 0:
		s.wake()
	case s.timer == nil:
		s.timer = time.AfterFunc(left, s.pass)
	default:
		s.timer.Reset(left)
	}
}

// pass is what the timer calls. The deadline may have been moved since the timer fired.
func (s *side) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := time.Until(s.at); {
	case s.at.IsZero():
	case left <= 0:
		s.late.Store(true)
		s.wake()
	default:
		s.timer.Reset(left)
	}
}

func (s *side) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
