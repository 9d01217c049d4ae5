package master

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/master/journal"
)

// Term is a leadership among several masters. Its methods are safe for concurrent use.
type Term interface {
	// Epoch is higher than that of all leaderships before.
	Epoch() uint64
	// Until is the time before which no other master can lead. It moves on as the leadership is renewed.
	Until() journal.Instant
}

// leads says whether this master leads. A master without rivals always does.
type leads struct {
	now     func() journal.Instant
	standby bool                 // there are other masters
	term    atomic.Pointer[term] // nil before the first leadership
	view    atomic.Uint64
}

type term struct{ Term }

// valid reports whether no other master can lead.
func (l *leads) valid() bool {
	if !l.standby {
		return true
	}
	t := l.term.Load()
	return t != nil && l.now() < t.Until()
}
