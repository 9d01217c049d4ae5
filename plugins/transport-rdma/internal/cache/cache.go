// Package cache decides which connection gives way when there is no space for another.
package cache

import "sync/atomic"

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
	Value      V
	used       atomic.Bool
	prev, next *Entry[V] // prev is newer
	in         bool
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
	policy         Policy
	newest, oldest *Entry[V]
	hand           *Entry[V] // where SIEVE goes on looking; nil for the oldest
	size           int
}

// New makes an empty set.
func New[V any](p Policy) *Set[V] { return &Set[V]{policy: p} }

// Len returns the number of entries.
func (s *Set[V]) Len() int { return s.size }

// All returns the values, oldest first.
func (s *Set[V]) All() []V {
	out := make([]V, 0, s.size)
	for e := s.oldest; e != nil; e = e.prev {
		out = append(out, e.Value)
	}
	return out
}

// Add puts v in as the newest entry.
func (s *Set[V]) Add(v V) *Entry[V] {
	e := &Entry[V]{Value: v, next: s.newest, in: true}
	if s.newest != nil {
		s.newest.prev = e
	} else {
		s.oldest = e
	}
	s.newest = e
	s.size++
	return e
}

// Remove takes e out, if it is in.
func (s *Set[V]) Remove(e *Entry[V]) {
	if !e.in {
		return
	}
	if s.hand == e {
		s.hand = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		s.newest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		s.oldest = e.prev
	}
	e.prev, e.next, e.in = nil, nil, false
	s.size--
}

// Victim returns the entry that should give way, among those that may. It stays in.
// nil where none may.
func (s *Set[V]) Victim(may func(V) bool) *Entry[V] {
	e := s.oldest
	if s.policy == SIEVE && s.hand != nil {
		e = s.hand
	}
	for range 2 * s.size { // One round may only take the marks off.
		if e == nil {
			e = s.oldest
		}
		if may(e.Value) && (s.policy == FIFO || !e.used.Swap(false)) {
			s.hand = e.prev
			return e
		}
		e = e.prev
	}
	return nil
}
