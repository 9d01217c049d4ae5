package store

import (
	"log/slog"
	"sync"
	"time"
)

// quiet writes at most one line of each message per second and says how many it left out,
// so that a damaged node does not fill the log of everyone who reads from it.
type quiet struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]*window
}

type window struct {
	from    time.Time
	dropped int
}

// Warn takes messages that are constants; what varies goes into args.
func (q *quiet) Warn(msg string, args ...any) {
	q.mu.Lock()
	if q.last == nil {
		q.last = map[string]*window{}
	}
	w := q.last[msg]
	if w == nil {
		w = &window{}
		q.last[msg] = w
	}
	if now := time.Now(); now.Sub(w.from) < time.Second {
		w.dropped++
		q.mu.Unlock()
		return
	} else if w.from = now; w.dropped > 0 {
		args = append(args, "left_out", w.dropped)
		w.dropped = 0
	}
	q.mu.Unlock()
	q.log.Warn(msg, args...)
}
