// Package handles gives objects of this process numbers that C can hold. A number is never 0 and
// never used twice, so that a stale number finds no object instead of another one.
package handles

import (
	"slices"
	"sync"
	"time"
)

// Table assigns numbers to objects. The zero value is empty. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	last int64
	all  map[int64]*entry
}

type entry struct {
	value any
	calls int
	taken bool
	idle  chan struct{} // made by a Take that waits; closed when the last call ended
}

// Add gives value a number.
func (t *Table) Add(value any) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[int64]*entry{}
	}
	t.last++
	t.all[t.last] = &entry{value: value}
	return t.last
}

// Len returns how many numbers stand for an object.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// Handles lists the numbers that stand for an object, in the order of Add.
func (t *Table) Handles() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]int64, 0, len(t.all))
	for h := range t.all {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// Use is a call in progress with the object of a number. End it with Done.
type Use[T any] struct {
	// Value is the zero value if OK is false.
	Value T
	// OK is false for a number that stands for no object, or not for a T.
	OK bool

	table *Table
	entry *entry
}

// Begin begins a call with the T that h stands for.
func Begin[T any](t *Table, h int64) Use[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, e := find[T](t, h)
	if e == nil {
		return Use[T]{}
	}
	e.calls++
	return Use[T]{Value: v, OK: true, table: t, entry: e}
}

// find returns the T that h stands for and its entry, which is nil if there is none. The caller
// holds mu.
func find[T any](t *Table, h int64) (value T, e *entry) {
	if e = t.all[h]; e != nil {
		if v, ok := e.value.(T); ok {
			return v, e
		}
	}
	return value, nil
}

// Done ends the call. Call it once. It does nothing if OK is false.
func (u Use[T]) Done() {
	if !u.OK {
		return
	}
	u.table.mu.Lock()
	defer u.table.mu.Unlock()
	if u.entry.calls--; u.entry.calls == 0 && u.entry.taken {
		close(u.entry.idle)
	}
}

// Take removes the number of a T, so that no call begins with it again. It waits for the calls in
// progress, at most for wait, and idle reports whether they ended. ok is as in Begin.
func Take[T any](t *Table, h int64, wait time.Duration) (value T, idle, ok bool) {
	t.mu.Lock()
	value, e := find[T](t, h)
	if e == nil {
		t.mu.Unlock()
		return value, false, false
	}
	delete(t.all, h)
	if e.taken = true; e.calls == 0 {
		t.mu.Unlock()
		return value, true, true
	}
	e.idle = make(chan struct{})
	t.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-e.idle:
		return value, true, true
	case <-timer.C:
		return value, false, true
	}
}
