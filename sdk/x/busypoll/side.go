package busypoll

import (
	"sync"
	"sync/atomic"
	"time"
)

// side is one direction of a Conn.
type side struct {
	busy  sync.Mutex    // one at a time uses it
	ready chan struct{} // holds a token when it is worth another try
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

// pass is the timer's, which may have begun when the deadline was moved.
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
