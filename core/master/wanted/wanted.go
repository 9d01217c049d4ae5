// Package wanted remembers what was ordered a moment ago, so that it is not ordered twice.
package wanted

import (
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
)

const (
	// duration is how long an entry is remembered.
	duration = 30 * time.Second
	// most bounds the entries.
	most = 4096
)

// Set is what was ordered a moment ago. The zero value is empty. Safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	until map[string]lease.Instant
}

// Add notes a name. It reports whether the name is to be ordered: it was not a moment ago, and there is room for it.
func (s *Set) Add(name string, now lease.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]lease.Instant{}
	}
	if s.until[name] > now {
		return false
	}
	if len(s.until) >= most {
		for n, until := range s.until {
			if until <= now {
				delete(s.until, n)
			}
		}
	}
	if len(s.until) >= most {
		return false
	}
	s.until[name] = now.Add(duration)
	return true
}
