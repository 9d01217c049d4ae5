// Package memory is a metadata service in this process: the content of the HTTP metadata
// server, and the directory of an all-in-one process or a test.
package memory

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Limits bound a Store; zero fields take the defaults.
type Limits struct {
	Entries   int // keys, default 100,000
	KeySize   int // bytes of one key, default 4 KiB
	ValueSize int // bytes of one value, default 16 MiB
	TotalSize int // bytes of all keys and values, default 1 GiB
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Entries, 100_000)
	def(&l.KeySize, 4<<10)
	def(&l.ValueSize, metadata.MaxDescriptorSize)
	def(&l.TotalSize, 1<<30)
	return l
}

// Outcome is what a Set did.
type Outcome int

// The outcomes.
const (
	Updated Outcome = iota
	Unchanged
)

// Store is a bounded map. Nothing survives the process. Safe for concurrent use.
type Store struct {
	limits Limits

	mu     sync.RWMutex
	values map[string][]byte
	size   int
}

var _ metadata.Store = (*Store)(nil)

// New returns an empty store.
func New(limits Limits) *Store {
	return &Store{limits: limits.withDefaults(), values: make(map[string][]byte)}
}

// Limits returns the bounds in force.
func (s *Store) Limits() Limits { return s.limits }

// Get implements metadata.Store.
func (s *Store) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.values[key]
	if !ok {
		return nil, metadata.ErrNotFound
	}
	return v, nil
}

// Put implements metadata.Store. Errors as Set.
func (s *Store) Put(_ context.Context, key string, value []byte) error {
	_, err := s.Set(key, value)
	return err
}

// Set is Put that says whether anything changed. InvalidParams for a key or value beyond
// the limits, BufferOverflow when the store is full, metadata.ErrDuplicate.
func (s *Store) Set(key string, value []byte) (Outcome, error) {
	const op = "metadata: put"
	switch {
	case key == "" || len(key) > s.limits.KeySize:
		return 0, errs.New(errs.InvalidParams, op, "a key of %d bytes; 1 to %d are allowed", len(key), s.limits.KeySize)
	case len(value) > s.limits.ValueSize:
		return 0, errs.New(errs.InvalidParams, op, "a value of %d bytes; at most %d are allowed", len(value), s.limits.ValueSize)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.values[key]
	switch {
	case exists && bytes.Equal(old, value):
		return Unchanged, nil
	case exists && metadata.IsRPCMeta(key):
		return 0, metadata.ErrDuplicate
	}
	size := s.size + len(value) - len(old)
	if !exists {
		size += len(key)
	}
	if size > s.limits.TotalSize || !exists && len(s.values) >= s.limits.Entries {
		return 0, errs.New(errs.BufferOverflow, op, "the metadata service is full: %d keys, %d bytes", len(s.values), s.size)
	}
	s.values[key] = slices.Clone(value)
	s.size = size
	return Updated, nil
}

// Delete implements metadata.Store.
func (s *Store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	if !ok {
		return metadata.ErrNotFound
	}
	delete(s.values, key)
	s.size -= len(key) + len(v)
	return nil
}

// Len returns the number of keys.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.values)
}
