// Package landing has the objects whose puts have ended, and of which the nodes have not confirmed yet that all bytes have
// arrived. They are not read before that.
package landing

import (
	"context"
	"sync"
	"sync/atomic"
)

// Set is the names of such objects. The zero value is empty. Safe for concurrent use.
type Set struct {
	count atomic.Int64
	mu    sync.Mutex
	names map[string]*entry
}

type entry struct {
	puts int // that are landing
	done chan struct{}
}

// Begin adds names until End is called with them.
func (s *Set) Begin(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]*entry{}
	}
	for _, n := range names {
		e := s.names[n]
		if e == nil {
			e = &entry{done: make(chan struct{})}
			s.names[n] = e
			s.count.Add(1)
		}
		e.puts++
	}
}

// End is the opposite of Begin.
func (s *Set) End(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		e := s.names[n]
		if e.puts--; e.puts == 0 {
			close(e.done)
			delete(s.names, n)
			s.count.Add(-1)
		}
	}
}

// Has reports whether a name is in the set.
func (s *Set) Has(name string) bool { return s.get(name) != nil }

func (s *Set) get(name string) *entry {
	if s.count.Load() == 0 { // as a rule
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// Wait returns when a name is not in the set, or the context ends.
func (s *Set) Wait(ctx context.Context, name string) {
	if e := s.get(name); e != nil {
		select {
		case <-e.done:
		case <-ctx.Done():
		}
	}
}
