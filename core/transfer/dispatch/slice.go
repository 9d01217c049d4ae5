package dispatch

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// job is one request as its group sees it.
type job struct {
	task     *request.Task
	deadline time.Time
	off      int // how far it is cut up
	left     int // bytes that did not arrive yet
	inFlight int // slices that a transport has
	pending  bool

	// ended: it is decided. published: the task says so, which it does once nothing of the job is
	// in flight any more.
	ended, published bool
	err              error
	done             time.Time

	// epoch of the peer from which bytes of this request were moved, if touched.
	epoch   uint64
	touched bool
}

// hasty reports whether the request is a read whose caller has another copy.
func (j *job) hasty() bool { return j.task.Req.Hasty && j.task.Req.Kind == transport.Read }

// slice is the part of a request that one op carries. It belongs to the goroutine of its group,
// except while the op is in flight.
type slice struct {
	path.Op
	job  *job
	home *region.Region // that holds all of the local memory, nil for none

	path     *path.Path
	gen      uint64 // of the route that rung counts in
	epoch    uint64 // of the route
	rung     int    // index of the path in the route
	again    bool   // tried twice on this path
	quiet    bool   // an earlier attempt ran into its deadline while nothing arrived
	held     bool   // its share of the path's window is taken
	attempts int
	waiting  time.Time // since when every rail of the path is down
}

// hasty reports whether the slice is of a read whose caller has another copy.
func (s *slice) hasty() bool { return s.Hasty && s.Kind == transport.Read }

// places are where the memory of the slice is.
func (s *slice) places() rail.Places {
	at := rail.Places{Local: matrix.Wildcard, Remote: matrix.Locate(s.Remote.Location, s.Remote.Length, s.Addr-s.Remote.Addr)}
	if s.home != nil {
		at.Local = matrix.Locate(s.home.Location, uint64(len(s.home.Mem)), memory.AddrOf(s.Local)-s.home.Addr)
	}
	return at
}

// leastStall is the part of the time to a deadline in which a path has to move something: a silent
// peer is told from a late one also for callers with short deadlines.
const leastStall = 7.0 / 8

// bound sets the limits of an attempt that begins now. Where the transport tells a slow path from a
// silent one, its silence ends the attempt. Elsewhere the attempt ends after the time that silence
// and the bytes before it may take.
func (s *slice) bound(now time.Time, silence time.Duration) {
	s.Started, s.Deadline, s.Stall = now, s.job.deadline, 0
	if s.path.Carrier.Stalls {
		s.Stall = max(min(silence, time.Duration(leastStall*float64(s.Deadline.Sub(now)))), 1)
		return
	}
	if by := now.Add(silence + s.Eta); by.Before(s.Deadline) {
		s.Deadline = by
	}
}

// asleep is how late this process may notice that a time has come before it has to assume that it
// did not run: the machine was paused, or is overloaded. That nothing arrived meanwhile says
// nothing about a peer.
const asleep = time.Second

// silent reports whether the attempt ran out of time while nothing arrived over its path, although
// this process was running.
func (s *slice) silent() bool {
	if s.Stall > 0 { // The transport knows, and has checked that the process ran.
		return errs.Is(s.Result.Err, errs.RPCTimeout) && time.Since(s.Started) >= s.Stall && s.path.SilentSince(time.Now().Add(-s.Stall))
	}
	late := time.Since(s.Deadline)
	return late >= 0 && late < asleep && s.path.SilentSince(s.Started)
}

// toPath points the slice at another path of the route.
func (s *slice) toPath(rung int) {
	s.rung, s.again, s.Force, s.waiting, s.Tried = rung, false, false, time.Time{}, rail.Bitset{}
}

var (
	errNoSpace    = errors.New("the path has no space, and nothing arrives")
	errConnecting = errors.New("there is no connection yet")
	errNoReason   = errors.New("the transport reported a failure without a reason")
	errNoPath     = errors.New("no path to it works")
)
