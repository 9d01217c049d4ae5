package access

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sumEvery is how often sums are told.
	sumEvery = time.Minute
	// mostSums bounds the identities and calls of one minute that have sums of their own.
	mostSums = 1024
)

// sums are those of the minute, of each identity and call.
type sums struct {
	mu    sync.Mutex
	timer *time.Timer // nil while nothing is counted
	all   map[sumKey]*sum
}

type sumKey struct {
	who  string
	call *Call
}

// sum is what was counted. A Peer keeps those of its last calls, so that a call costs an addition as a rule. An
// addition at the moment in which the sum is told may be lost.
type sum struct {
	key          sumKey
	who          []slog.Attr
	done, failed atomic.Uint64
	told         atomic.Bool // it counts no more
}

// others stands for the identities for which the table has no place.
const others = "others"

// find returns the sum of a minute, whose line has the attributes that say who it is.
func (s *sums) find(log *slog.Logger, key sumKey, who func() []slog.Attr) *sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[sumKey]*sum{}
		s.timer = time.AfterFunc(sumEvery, func() { s.tell(log) })
	}
	x := s.all[key]
	if x == nil && len(s.all) >= mostSums {
		key.who, who = others, func() []slog.Attr { return []slog.Attr{slog.String("who", others)} }
		x = s.all[key]
	}
	if x == nil {
		x = &sum{key: key, who: who()}
		s.all[key] = x
	}
	return x
}

// tell logs what was counted.
func (s *sums) tell(log *slog.Logger) {
	s.mu.Lock()
	list := s.all
	if s.timer != nil {
		s.timer.Stop()
	}
	s.all, s.timer = nil, nil
	s.mu.Unlock()
	for _, x := range list {
		x.told.Store(true)
		attrs := append(x.who, slog.String("call", x.key.call.Name), slog.Uint64("done", x.done.Load()), slog.Uint64("failed", x.failed.Load()))
		log.LogAttrs(context.Background(), slog.LevelInfo, "calls were made", attrs...)
	}
}
