package access

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tallyEvery is how often tallies are logged.
	tallyEvery = time.Minute
	// mostTallies bounds the identities and calls of one minute that have a tally of their own.
	mostTallies = 1024
)

// tallies are those of the minute, of each identity and call.
type tallies struct {
	mu    sync.Mutex
	timer *time.Timer // nil while nothing is counted
	all   map[tallyKey]*tally
}

type tallyKey struct {
	who  string
	call *Call
}

// tally is what was counted. A Peer keeps those of its last calls, so that a call costs an addition as a rule. An
// addition at the moment in which the tally is told may be lost.
type tally struct {
	key          tallyKey
	who          []slog.Attr
	done, failed atomic.Uint64
	told         atomic.Bool // it counts no more
}

// others stands for the identities for which the table has no place.
const others = "others"

// find returns the tally of a minute, whose line has the attributes that say who it is.
func (s *tallies) find(log *slog.Logger, key tallyKey, who func() []slog.Attr) *tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[tallyKey]*tally{}
		s.timer = time.AfterFunc(tallyEvery, func() { s.tell(log) })
	}
	x := s.all[key]
	if x == nil && len(s.all) >= mostTallies {
		key.who, who = others, func() []slog.Attr { return []slog.Attr{slog.String("who", others)} }
		x = s.all[key]
	}
	if x == nil {
		x = &tally{key: key, who: who()}
		s.all[key] = x
	}
	return x
}

// tell logs what was counted.
func (s *tallies) tell(log *slog.Logger) {
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
