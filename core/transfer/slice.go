package transfer

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// slice is one operation's worth of a request. It belongs to its group's goroutine, but
// for the time it is under way: then to the link's reaper, which hands it back through
// the group's channel.
type slice struct {
	group *group
	job   *job
	kind  transport.OpKind
	local []byte
	addr  uint64
	home  *region // that holds all of local, nil for none

	link     *link
	gen      uint64 // of the lane that rung counts in
	epoch    uint64 // of the lane
	rung     int    // index of the link among the lane's
	again    bool   // tried twice on this link
	quiet    bool   // ran into its deadline before, while nothing arrived
	force    bool   // goes over a paused rail, since there is nothing else
	held     bool   // its share of the link's window is taken
	attempts int
	remote   remote
	staging  *memory.Buffer
	started  time.Time
	deadline time.Time
	stall    time.Duration // how long the path may move nothing; 0 where its transport cannot tell
	eta      time.Duration // how long it was expected to take when it was added to its rail
	crowded  bool          // no rail can move it soon enough
	waiting  time.Time     // since when every rail of the link is down

	way    *rail  // that the slice is counted on
	queued int64  // bytes under way on it when the slice was added, with the slice's
	tried  bitset // rails of the link that failed

	result transport.Completion
}

// memory is what the transport touches: the caller's, or the staging buffer.
func (s *slice) memory() []byte {
	if s.staging != nil {
		return s.staging.Bytes()
	}
	return s.local
}

// leastStall is the part of the time to a deadline in which a path has to move something: a
// peer that is silent is to be told from one that is late, also for callers in a hurry.
const leastStall = 7.0 / 8

// bound sets the limits of an attempt that begins now. Where the transport tells a slow path from
// a silent one, its silence ends the attempt; elsewhere the time that silence and the bytes before
// it may take.
func (s *slice) bound(now time.Time, silence time.Duration) {
	s.started, s.deadline, s.stall = now, s.job.deadline, 0
	if s.link.carrier.Stalls {
		s.stall = max(min(silence, time.Duration(leastStall*float64(s.deadline.Sub(now)))), 1)
		return
	}
	if by := now.Add(silence + s.eta); by.Before(s.deadline) {
		s.deadline = by
	}
}

// end is called by the reaper, once for each time the slice was under way. It never
// blocks: the channel has room for all slices a group has under way.
func (s *slice) end(c transport.Completion) {
	s.result = c
	s.group.done <- s
}

// settle ends the use of a staging buffer after the operation ended. The buffer of a read
// that may still be written is never lent again; the caller's memory is safe then, so that
// the read may be tried again. What is in doubt of a write is the peer's memory only.
func (g *group) settle(s *slice) {
	switch b := s.staging; {
	case b == nil:
		return
	case s.kind == transport.Read && s.result.Status == transport.Quarantined:
		g.e.stats.quarantined.Add(1)
		s.result.Status = transport.Failed
	default:
		if s.kind == transport.Read && s.result.Status == transport.OK {
			copy(s.local, b.Bytes())
		}
		b.Release()
	}
	s.staging = nil
}

// toLink points the slice at another link of the lane.
func (s *slice) toLink(rung int) {
	s.rung, s.again, s.force, s.waiting, s.tried = rung, false, false, time.Time{}, bitset{}
}

// bitset is a set of small numbers.
type bitset [maxRails / 64]uint64

func (b *bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }

var (
	errConnecting = errors.New("there is no connection yet")
	errNoReason   = errors.New("the transport reported a failure without a reason")
	errNoPath     = errors.New("no path to it works")
)
