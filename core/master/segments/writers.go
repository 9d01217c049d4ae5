package segments

import (
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
)

// Writer is a client that puts, and what its puts occupy: memory of unfinished ones, and memory of
// given-up ones that is still held back. Safe for concurrent use.
type Writer struct {
	ID    model.ClientID
	calls atomic.Int32 // that use it; see Writers

	mu    sync.Mutex
	puts  int
	bytes uint64
}

// Caps bound what one writer may have at a time. Zero fields bound nothing.
type Caps struct {
	Puts  int
	Bytes uint64
}

// Refusal says which of Caps a writer has reached, and what it has.
type Refusal struct {
	ByPuts bool
	Puts   int
	Bytes  uint64
}

// Reserve takes one put of so many bytes into account that is about to begin. It returns nil unless
// the put exceeds a cap. A writer that occupies nothing may begin a put of any size.
func (w *Writer) Reserve(bytes uint64, caps Caps) *Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	byPuts := caps.Puts > 0 && w.puts >= caps.Puts
	if byPuts || caps.Bytes > 0 && w.bytes > 0 && bytes > caps.Bytes-min(w.bytes, caps.Bytes) {
		return &Refusal{ByPuts: byPuts, Puts: w.puts, Bytes: w.bytes}
	}
	w.puts++
	w.bytes += bytes
	return nil
}

// Add accounts for puts and bytes that come, or that go where they are negative.
func (w *Writer) Add(puts int, bytes int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts += puts
	w.bytes += uint64(bytes)
}

func (w *Writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.puts == 0 && w.bytes == 0
}

// Writers are the writers of a master. Safe for concurrent use.
type Writers struct {
	mu sync.Mutex
	by map[model.ClientID]*Writer
}

// NewWriters returns an empty set.
func NewWriters() *Writers { return &Writers{by: map[model.ClientID]*Writer{}} }

// Enter returns the account of a client, which stays in the set until Leave, and as long as it is
// not empty.
func (s *Writers) Enter(id model.ClientID) *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.by[id]
	if w == nil {
		w = &Writer{ID: id}
		s.by[id] = w
	}
	w.calls.Add(1)
	return w
}

// Leave ends Enter.
func (s *Writers) Leave(w *Writer) { w.calls.Add(-1) }

// Prune forgets the accounts that are empty and unused.
func (s *Writers) Prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.by {
		if w.calls.Load() == 0 && w.idle() {
			delete(s.by, id)
		}
	}
}
