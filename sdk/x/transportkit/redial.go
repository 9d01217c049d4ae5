package transportkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The pause between attempts to connect doubles from the least to the most.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// Redial says when a path may connect again, and how its operations fail until then. The mutex of
// the path guards it.
type Redial struct {
	// NotBefore is when the next attempt may begin.
	NotBefore time.Time
	// Last is why the last attempt failed; nil after success.
	Last error
	// Down is the error with which operations fail at once until NotBefore; nil where they may
	// wait.
	Down error

	name, hint string
	limit      time.Duration
	pause      time.Duration
	since      time.Time // when the attempts began that failed in a row, without an answer in between
}

// Init must be called before any other method. A peer that does not answer for limit cannot be
// reached; hint says what to do about that. Errors begin with name.
func (r *Redial) Init(name string, limit time.Duration, hint string) {
	r.name, r.limit, r.hint = name, limit, hint
}

// Failed notes a failure and sets the next attempt. The pause is drawn from its upper half, so that
// many paths do not connect at the same moment.
func (r *Redial) Failed(err error, now time.Time) {
	r.pause = min(max(2*r.pause, leastPause), mostPause)
	r.NotBefore = now.Add(r.pause/2 + rand.N(r.pause/2))
	r.Last = err
}

// Connected notes that a connection works.
func (r *Redial) Connected() { r.Last, r.Down, r.since = nil, nil, time.Time{} }

// Answered notes that an answer came, so the next pause is the least again.
func (r *Redial) Answered() { r.pause = 0 }

// Pause waits until the time of the next attempt, at most until the context ends. It reports
// whether it waited, without the mutex of the path; notBefore is what NotBefore was with it.
func Pause(ctx context.Context, notBefore time.Time) bool {
	pause := time.Until(notBefore)
	if pause <= 0 {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

// DialAny dials the addresses of a peer in turn until one succeeds, within a time of which each
// gets an equal share of what is left. note adds the error of an address to the failure, which is
// nil on success.
func DialAny[C any](addrs []string, within time.Duration, c *Counters, dial func(addr string, by time.Time) (C, error), note func(f *DialFailure, addr string, err error)) (C, *DialFailure) {
	limit := time.Now().Add(within)
	failure := &DialFailure{Absent: true}
	for i, addr := range addrs {
		c.Dials.Add(1)
		share := time.Until(limit) / time.Duration(len(addrs)-i)
		conn, err := dial(addr, time.Now().Add(share))
		if err == nil {
			return conn, nil
		}
		c.DialsFailed.Add(1)
		note(failure, addr, err)
	}
	var none C
	return none, failure
}

// DialFailure is why no address led to the peer.
type DialFailure struct {
	Err    error
	Absent bool // no process serves the peer's incarnation at any of its addresses now
	Heard  bool // something answered at one of them
	// Means is what the failure means where that is known, and Hint what to do about it.
	Means, Hint string
}

// Add adds the error of one address. Absent remains only where it holds for every address.
func (f *DialFailure) Add(addr string, err error, absent, heard bool) {
	f.Absent = f.Absent && absent
	f.Heard = f.Heard || heard
	f.Err = errors.Join(f.Err, fmt.Errorf("%s: %w", addr, err))
}

// Judge notes a failure of an attempt that began at began, zero for one that counts to those
// before. It returns the error that operations fail with where waiting is of no use: the peer is
// not there, or could not be reached for the limit. working says that another connection works.
func (r *Redial) Judge(f *DialFailure, began, now time.Time, working bool) error {
	r.Failed(f.Err, now)
	if !began.IsZero() && (f.Heard || r.since.IsZero()) {
		r.since = began
	}
	if working {
		r.since = time.Time{}
		return nil
	}
	means, hint := f.Means, f.Hint
	switch {
	case means != "":
	case f.Absent:
		means, hint = "the peer is not there", "see whether its process runs"
	case !f.Heard && now.Sub(r.since) >= r.limit:
		means, hint = "the peer cannot be reached", r.hint
	default:
		r.Down = nil
		return nil
	}
	r.Down = &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: r.name, Err: fmt.Errorf("%s: %w", means, f.Err), Hint: hint}
	return r.Down
}
