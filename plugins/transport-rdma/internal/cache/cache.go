// Package cache decides which connection gives way when there is no space for another.
package cache

import (
	"container/list"
	"sync/atomic"
)

// Policy is the order in which entries give way.
type Policy uint8

const (
	// SIEVE retains entries that were used since the hand last passed them.
	SIEVE Policy = iota
	// FIFO takes the oldest entry, used or not.
	FIFO
)

// Entry is a place in a Set.
type Entry[V any] struct {
	Value V
	used  atomic.Bool
	at    *list.Element // in Set.entries; nil once it was removed
}

// Touch marks the entry as used. Unlike the rest it may be called without the lock that
// guards the set.
func (e *Entry[V]) Touch() {
	if !e.used.Load() { // Do not fight over the cache line on every operation.
		e.used.Store(true)
	}
}

// Set keeps entries in the order they came. It is not safe for concurrent use.
type Set[V any] struct {
	policy  Policy
	entries list.List     // of *Entry[V], oldest first
	hand    *list.Element // where SIEVE goes on looking; nil for the oldest
}

// New makes an empty set.
func New[V any](p Policy) *Set[V] { return &Set[V]{policy: p} }

// Len returns the number of entries.
func (s *Set[V]) Len() int { return s.entries.Len() }

// All returns the values, oldest first.
func (s *Set[V]) All() []V {
	out := make([]V, 0, s.Len())
	for at := s.entries.Front(); at != nil; at = at.Next() {
		out = append(out, at.Value.(*Entry[V]).Value)
	}
	return out
}

// Add puts v in as the newest entry.
func (s *Set[V]) Add(v V) *Entry[V] {
	e := &Entry[V]{Value: v}
	e.at = s.entries.PushBack(e)
	return e
}

// Remove takes e out, if it is in.
func (s *Set[V]) Remove(e *Entry[V]) {
	if e.at == nil {
		return
	}
	if s.hand == e.at {
		s.hand = e.at.Next()
	}
	s.entries.Remove(e.at)
	e.at = nil
}

// Victim returns the entry that should give way, among those that may. It stays in.
// nil where none may.
func (s *Set[V]) Victim(may func(V) bool) *Entry[V] {
	at := s.hand            // FIFO has none.
	for range 2 * s.Len() { // One round may only take the marks off.
		if at == nil {
			at = s.entries.Front()
		}
		e := at.Value.(*Entry[V])
		at = at.Next()
		if may(e.Value) && (s.policy == FIFO || !e.used.Swap(false)) {
			if s.policy == SIEVE {
				s.hand = at
			}
			return e
		}
	}
	return nil
}
