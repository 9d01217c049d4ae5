// Package revoked remembers puts that were revoked while the master did not know them: a segment leaves the master's
// table when its node attaches anew, and its puts are back once its ledger was read. Without this they would stay
// unfinished until a timeout.
package revoked

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// most bounds the puts of one half of a Set.
const most = 1 << 16

// By says who revoked a put.
type By struct {
	Client model.ClientID
	// Quarantined says that a peer may still write for the put.
	Quarantined bool
}

// Set is a set of puts. The zero value is empty. Safe for concurrent use.
type Set struct {
	mu       sync.Mutex
	new, old map[uint64]By
}

// Add adds a put, unless a client has revoked it before. It does nothing in a set that is full.
func (s *Set) Add(put uint64, by By) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.new[put]; is || len(s.new) >= most {
		return
	}
	if s.new == nil {
		s.new = map[uint64]By{}
	}
	s.new[put] = by
}

// Find returns who revoked a put.
func (s *Set) Find(put uint64) (by By, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by, ok = s.new[put]; !ok {
		by, ok = s.old[put]
	}
	return by, ok
}

// Turn forgets the puts that were added before the last Turn.
func (s *Set) Turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.new, s.old = nil, s.new
}
