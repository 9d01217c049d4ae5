package dispatch

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// maxInFlight bounds the operations that one call has in flight to one peer.
	maxInFlight = 256
	// maxBatch bounds the operations of one Submit.
	maxBatch = 32
)

// group is the requests of one call to one peer. One goroutine runs it; reapers only send
// into done. Groups are pooled.
type group struct {
	d     *Dispatcher
	ctx   context.Context
	owner Observer       // nil for a transfer without one
	moved *atomic.Uint64 // that of the batch, nil without one
	peer  string

	began      time.Time
	p          *peer.Peer
	route      peer.Route
	renewed    bool // the peer was looked up anew for this group
	silentPeer bool // the peer does not answer
	worked     bool // something arrived
	stopped    bool // the caller gave up, and all jobs have ended
	jobs       []job
	next       int      // first job that is not cut up
	retry      []*slice // to be submitted before anything new
	idle       []*slice
	done       chan *path.Op
	inFlight   int
	limit      int          // of inFlight; done has space for as many
	sliceSize  int          // at most Config.SliceSize
	used       []*path.Path // the paths to which slices of the group were submitted
	latest     time.Time    // the last deadline of anything in flight
	due        time.Time    // first deadline of a job
	timer      *time.Timer
	batch      []*slice   // to be submitted together
	ops        []*path.Op // of batch
	scratch    []transport.Op
	ready      func() bool // whether something is done; made once
}

// newGroup returns an empty group to add jobs to and run.
func (d *Dispatcher) newGroup(ctx context.Context, o Observer, peer string) *group {
	g, ok := d.groups.Get().(*group)
	if !ok {
		g = &group{d: d, batch: make([]*slice, 0, maxBatch), ops: make([]*path.Op, 0, maxBatch), scratch: make([]transport.Op, 0, maxBatch), timer: time.NewTimer(time.Hour)}
		g.timer.Stop()
		g.ready = func() bool { return len(g.done) > 0 }
	}
	g.ctx, g.peer, g.began = ctx, peer, time.Now()
	if o != nil {
		g.owner, g.moved = o, o.MovedBytes()
	}
	return g
}

// maxKept bounds what a group that is not in use keeps of its jobs and slices.
const maxKept = 1024

// free makes the group ready for its next use. Nothing of it is in flight.
func (g *group) free() {
	if cap(g.jobs) > maxKept || cap(g.idle) > maxKept || cap(g.retry) > maxKept {
		return
	}
	clear(g.jobs)
	clear(g.used)
	clear(g.retry[:cap(g.retry)])
	*g = group{
		d: g.d, jobs: g.jobs[:0], retry: g.retry[:0], idle: g.idle, done: g.done, used: g.used[:0],
		timer: g.timer, batch: g.batch[:0], ops: g.ops[:0], scratch: g.scratch[:0], ready: g.ready,
	}
	g.d.groups.Put(g)
}

// newSlice returns an empty slice.
func (g *group) newSlice() *slice {
	if n := len(g.idle); n > 0 {
		s := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return s
	}
	return new(slice)
}

func (g *group) recycle(s *slice) {
	*s = slice{}
	g.idle = append(g.idle, s)
}

// sliceOf is the slice that an op belongs to.
func sliceOf(o *path.Op) *slice { return o.Owner.(*slice) }

// push puts a slice back to be submitted next.
func (g *group) push(s *slice) { g.retry = append(g.retry, s) }

// split shortens a slice to n bytes and queues the rest.
func (g *group) split(s *slice, n int) {
	rest := g.newSlice()
	*rest = *s
	rest.Owner = rest
	rest.Local, rest.Addr = s.Local[n:], s.Addr+uint64(n)
	s.Local = s.Local[:n]
	g.push(rest)
}

// skip moves next past jobs that have ended or are cut up.
func (g *group) skip() {
	for g.next < len(g.jobs) && (g.jobs[g.next].ended || g.jobs[g.next].off == len(g.jobs[g.next].task.Req.Local)) {
		g.next++
	}
}

func (g *group) note(p *path.Path) {
	if !slices.Contains(g.used, p) {
		g.used = append(g.used, p)
	}
}

// earliest returns the first deadline of the open jobs of which nothing is in flight, zero
// without any. An op in flight has a deadline of its own.
func (g *group) earliest() time.Time {
	var first time.Time
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.inFlight == 0 && (first.IsZero() || j.deadline.Before(first)) {
			first = j.deadline
		}
	}
	return first
}

// horizon returns the last deadline of the open jobs, zero without any.
func (g *group) horizon() time.Time {
	var last time.Time
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.deadline.After(last) {
			last = j.deadline
		}
	}
	return last
}
