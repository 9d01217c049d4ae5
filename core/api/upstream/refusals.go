package upstream

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// quiet is how long further refusals of a kind are only counted after a line in the log: a client
	// may repeat a call every second.
	quiet = time.Minute
	// maxKinds bounds the kinds of refusals that are remembered.
	maxKinds = 256
)

// refusals writes the log of calls that were refused: one line a minute for each function and code.
type refusals struct {
	log    *slog.Logger
	called func(function uint32) string // names a function

	mu   sync.Mutex
	seen map[kind]*seen
}

type kind struct {
	function uint32
	code     uint16
}

type seen struct {
	told time.Time
	more int
}

func newRefusals(log *slog.Logger, called func(uint32) string) *refusals {
	return &refusals{log: log, called: called, seen: map[kind]*seen{}}
}

// tell notes a call that was refused.
func (r *refusals) tell(remote net.Addr, function uint32, why *Refused) {
	r.line(remote, kind{function, why.Code}, "a call of an upstream client was refused: "+why.Message)
}

// tooLarge notes a connection that is closed for a request that is too large.
func (r *refusals) tooLarge(remote net.Addr, function uint32, why error) {
	r.line(remote, kind{function, answerTooLarge}, "the connection of an upstream client is closed: "+why.Error()+"; let it send fewer keys at once")
}

func (r *refusals) line(remote net.Addr, k kind, text string) {
	more, due := r.count(k, time.Now())
	if !due {
		return
	}
	attrs := []slog.Attr{
		slog.String("function", r.called(k.function)), slog.String("remote", remote.String()), slog.Int("code", int(k.code)),
	}
	if more > 0 {
		attrs = append(attrs, slog.Int("more_since_last_line", more))
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}

// count counts a refusal. due reports whether a line is due, which then says how many more there were
// since the last line.
func (r *refusals) count(k kind, now time.Time) (more int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen[k]
	switch {
	case s == nil && len(r.seen) >= maxKinds:
		for k, s := range r.seen {
			if now.Sub(s.told) >= quiet {
				delete(r.seen, k)
			}
		}
		if len(r.seen) >= maxKinds {
			return 0, false
		}
		fallthrough
	case s == nil:
		r.seen[k] = &seen{told: now}
		return 0, true
	case now.Sub(s.told) < quiet:
		s.more++
		return 0, false
	}
	more, s.more, s.told = s.more, 0, now
	return more, true
}
