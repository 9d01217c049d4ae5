package framed

import (
	"context"
	"time"
)

// Limits bound a connection. The zero value takes the defaults.
type Limits struct {
	// Frame is the largest frame in bytes, default 64 MiB.
	Frame int
	// Calls is how many calls of one connection may be in flight, default 1024; more wait unread.
	Calls int
	// Stall is how long a peer may not take what is sent to it, and how long the beginning
	// of a connection and a small request may take. Default 10 s.
	Stall time.Duration
	// Call is how long the server works on a call at most, also where the caller allowed more; 0
	// for no limit.
	Call time.Duration
	// Poll is how long a wait for the peer looks for its bytes before it sleeps (package
	// busypoll): 0 for what is usual in the process, below 0 to sleep at once.
	Poll time.Duration
	// Idle is how long a connection may have no call in flight before the server ends it. 0 means
	// for ever.
	Idle time.Duration
}

// WithDefaults returns the limits with the defaults in place of what is 0.
func (l Limits) WithDefaults() Limits {
	if l.Frame <= 0 {
		l.Frame = 64 << 20
	}
	if l.Calls <= 0 {
		l.Calls = 1024
	}
	if l.Stall <= 0 {
		l.Stall = 10 * time.Second
	}
	return l
}

// Budget bounds the memory of the large requests of all connections together. Safe for
// concurrent use.
type Budget interface {
	// Acquire waits for the memory of a request of n bytes, until ctx ends at the latest. The
	// caller of a request that it refuses is answered with its error.
	Acquire(ctx context.Context, n int) error
	// Release gives back what Acquire was given for n bytes.
	Release(n int)
}

// Uncounted is the largest request, in bytes, for which no Budget is asked.
const Uncounted = 64 << 10

const (
	// admission bounds the wait for a Budget where neither the server nor the caller bounds calls.
	admission = 30 * time.Second
	// slowest is the number of bytes a second with which a large request has to arrive.
	slowest = 1 << 20
)

// Arrival returns how long a request may take to arrive, where stall is how long a peer may
// do nothing.
func Arrival(size int, stall time.Duration) time.Duration {
	return stall + time.Duration(size)*time.Second/slowest
}
