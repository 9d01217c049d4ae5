// Package leadership holds what a master knows of its part among several: whether it leads, and which masters follow it.
package leadership

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/master/journal"
)

// Term is a leadership among several masters. Its methods are safe for concurrent use.
type Term interface {
	// Epoch is higher than that of all leaderships before.
	Epoch() uint64
	// Until is the time before which no other master can lead. It moves on as the leadership is renewed.
	Until() journal.Instant
}

// Leads says whether this master leads. A master without rivals always does. The exported fields are set before it is used;
// the methods are safe for concurrent use.
type Leads struct {
	// Now is the clock of leaderships.
	Now func() journal.Instant
	// Standby says that there are other masters.
	Standby bool

	term atomic.Pointer[term] // nil before the first leadership
	view atomic.Uint64
}

type term struct{ Term }

// Begin begins a leadership with a number, and reports whether it is the first one.
func (l *Leads) Begin(t Term, view uint64) (first bool) {
	l.view.Store(view)
	return l.term.Swap(&term{t}) == nil
}

// View returns the number of the last leadership, 0 for none.
func (l *Leads) View() uint64 { return l.view.Load() }

// Valid reports whether no other master can lead.
func (l *Leads) Valid() bool {
	if !l.Standby {
		return true
	}
	t := l.term.Load()
	return t != nil && l.Now() < t.Until()
}

const (
	// followerTTL is how long a follower is told to the nodes after it called Follow.
	followerTTL = 5 * time.Second
	// maxFollowers bounds them.
	maxFollowers = 16
)

// Followers are the masters that follow this one, with when each was heard of. The zero value is ready. Safe for concurrent use.
type Followers struct {
	mu    sync.Mutex
	heard map[string]journal.Instant
}

// Add notes that a master at an address follows, and returns false where there are too many.
func (f *Followers) Add(address string, now journal.Instant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	if _, known := f.heard[address]; !known && len(f.heard) >= maxFollowers {
		return false
	}
	if f.heard == nil {
		f.heard = map[string]journal.Instant{}
	}
	f.heard[address] = now
	return true
}

func (f *Followers) expire(now journal.Instant) {
	for a, at := range f.heard {
		if time.Duration(now-at) > followerTTL {
			delete(f.heard, a)
		}
	}
}

// List returns the addresses, sorted.
func (f *Followers) List(now journal.Instant) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	var out []string
	for a := range f.heard {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}
