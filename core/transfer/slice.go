package transfer

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// slice is the part of a request that one op carries. It belongs to the goroutine of its group,
// except while the op is in flight.
type slice struct {
	op
	job  *job
	home *region // that holds all of the local memory, nil for none

	path     *peerPath
	gen      uint64 // of the route that rung counts in
	epoch    uint64 // of the route
	rung     int    // index of the path in the route
	again    bool   // tried twice on this path
	quiet    bool   // an earlier attempt ran into its deadline while nothing arrived
	held     bool   // its share of the path's window is taken
	attempts int
	waiting  time.Time // since when every rail of the path is down
}

// places are where the memory of the slice is.
func (s *slice) places() places {
	at := places{local: matrix.Wildcard, remote: matrix.Locate(s.remote.location, s.remote.length, s.addr-s.remote.addr)}
	if s.home != nil {
		at.local = matrix.Locate(s.home.location, uint64(len(s.home.mem)), memory.AddrOf(s.local)-s.home.addr)
	}
	return at
}

// leastStall is the part of the time to a deadline in which a path has to move something: a
// silent peer is told from a late one also for callers with short deadlines.
const leastStall = 7.0 / 8

// bound sets the limits of an attempt that begins now. Where the transport tells a slow path from
// a silent one, its silence ends the attempt. Elsewhere the attempt ends after the time that silence
// and the bytes before it may take.
func (s *slice) bound(now time.Time, silence time.Duration) {
	s.started, s.deadline, s.stall = now, s.job.deadline, 0
	if s.path.carrier.Stalls {
		s.stall = max(min(silence, time.Duration(leastStall*float64(s.deadline.Sub(now)))), 1)
		return
	}
	if by := now.Add(silence + s.eta); by.Before(s.deadline) {
		s.deadline = by
	}
}

// asleep is how late this process may notice that a time has come before it has to assume
// that it did not run: the machine was paused, or is overloaded. That nothing arrived
// meanwhile says nothing about a peer.
const asleep = time.Second

// silent reports whether the attempt ran out of time while nothing arrived over its path, although
// this process was running.
func (s *slice) silent() bool {
	if s.stall > 0 { // The transport knows, and has checked that the process ran.
		return errs.Is(s.result.Err, errs.RPCTimeout) && time.Since(s.started) >= s.stall && s.path.silentSince(time.Now().Add(-s.stall))
	}
	late := time.Since(s.deadline)
	return late >= 0 && late < asleep && s.path.silentSince(s.started)
}

// toPath points the slice at another path of the route.
func (s *slice) toPath(rung int) {
	s.rung, s.again, s.force, s.waiting, s.tried = rung, false, false, time.Time{}, bitset{}
}

var (
	errConnecting = errors.New("there is no connection yet")
	errNoReason   = errors.New("the transport reported a failure without a reason")
	errNoPath     = errors.New("no path to it works")
)
