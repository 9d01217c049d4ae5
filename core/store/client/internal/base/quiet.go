package base

import (
	"log/slog"
	"sync"
	"time"
)

// Quiet logs each message at most once per second and adds how many lines it left out, so that a
// damaged node does not fill the logs of all its readers.
type Quiet struct {
	Logger *slog.Logger

	mu   sync.Mutex
	last map[string]*window
}

type window struct {
	from    time.Time
	dropped int
}

// Warn takes constant messages; variable text goes into args.
func (q *Quiet) Warn(msg string, args ...any) {
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
	q.Logger.Warn(msg, args...)
}
