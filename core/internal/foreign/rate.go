package foreign

import (
	"net"
	"sync"
	"time"
)

const (
	// quiet is how long further events of the same kind are only counted.
	quiet = time.Minute
	// maxKinds bounds the kinds that a Rate remembers.
	maxKinds = 256
)

// Rate says when a log line about events of one kind is due: one a minute for each kind, and none for
// those beyond 256 kinds a minute. It is safe for concurrent use; its zero value is ready.
type Rate[K comparable] struct {
	mu   sync.Mutex
	seen map[K]*events
}

type events struct {
	told time.Time
	more int // since then
}

// Count counts an event. tell reports whether a line is due, which then says that more events came
// since the last line.
func (r *Rate[K]) Count(kind K, now time.Time) (more int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[K]*events{}
	}
	e := r.seen[kind]
	if e == nil {
		if len(r.seen) >= maxKinds {
			r.forget(now)
		}
		if len(r.seen) >= maxKinds {
			return 0, false
		}
		r.seen[kind] = &events{told: now}
		return 0, true
	}
	if now.Sub(e.told) < quiet {
		e.more++
		return 0, false
	}
	more, e.more, e.told = e.more, 0, now
	return more, true
}

// forget drops the kinds whose next event would get a line anyway. The caller holds mu.
func (r *Rate[K]) forget(now time.Time) {
	for k, e := range r.seen {
		if now.Sub(e.told) >= quiet {
			delete(r.seen, k)
		}
	}
}

// HostOf returns the address of a peer without its port.
func HostOf(remote net.Addr) string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return remote.String()
	}
	return host
}
