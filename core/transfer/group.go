package transfer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// maxInFlight bounds the operations that one call has under way to one peer.
	maxInFlight = 256
	// maxBatch bounds the operations of one Submit.
	maxBatch = 32
)

// group is the requests of one call to one peer. One goroutine runs it; reapers only send
// into done. Groups are used again after they ran.
type group struct {
	d     *dispatcher
	ctx   context.Context
	owner observer       // nil for a transfer without one
	moved *atomic.Uint64 // that of the batch, nil without one
	peer  string

	began      time.Time
	p          *peer
	route      route
	renewed    bool // the peer was looked up anew on behalf of this group
	silentPeer bool // the peer does not answer
	worked     bool // something arrived
	stopped    bool // the caller gave up, and all jobs know
	jobs       []job
	next       int      // first job that is not cut up
	retry      []*slice // to be submitted before anything new
	idle       []*slice
	done       chan *op
	inFlight   int
	limit      int         // of underway; done has room for as many
	sliceSize  int         // at most Config.SliceSize
	used       []*peerPath // what slices of the group were submitted to
	latest     time.Time   // deadline of anything under way
	due        time.Time   // first deadline of a job
	timer      *time.Timer
	batch      []*slice // to be submitted together
	ops        []*op    // of batch
	scratch    []transport.Op
	ready      func() bool // whether something is done; made once
}

// newGroup returns an empty group to add jobs to and run.
func (d *dispatcher) newGroup(ctx context.Context, o observer, peer string) *group {
	g, ok := d.groups.Get().(*group)
	if !ok {
		g = &group{d: d, batch: make([]*slice, 0, maxBatch), ops: make([]*op, 0, maxBatch), scratch: make([]transport.Op, 0, maxBatch), timer: time.NewTimer(time.Hour)}
		g.timer.Stop()
		g.ready = func() bool { return len(g.done) > 0 }
	}
	g.ctx, g.peer, g.began = ctx, peer, time.Now()
	if o != nil {
		g.owner, g.moved = o, o.movedBytes()
	}
	return g
}

// maxKept bounds what a group that is not in use keeps of its jobs and slices.
const maxKept = 1024

// free makes the group ready for its next use. Nothing of it is under way.
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

// run brings every job to its end. It returns when nothing of the group is under way.
func (g *group) run() {
	g.serve()
	g.free()
}

func (g *group) serve() {
	g.prepare()
	if g.next == len(g.jobs) {
		return
	}
	p, err := g.d.peers.get(g.peer)
	if err != nil {
		g.endAll(err)
		return
	}
	defer p.release()
	g.p = p
	if err := p.admit(); err != nil {
		g.endAll(err)
		return
	}
	if err := g.attach(); err != nil {
		g.endAll(err)
		return
	}
	g.measure()
	for {
		g.stop()
		blocked := g.fill()
		switch {
		case g.inFlight > 0:
			g.await()
		case blocked != nil:
			g.room(blocked)
		default:
			if g.worked && !g.silentPeer {
				p.worked()
			}
			return
		}
	}
}

// prepare sets the jobs up and skips the empty ones.
func (g *group) prepare() {
	now := time.Now()
	limit, bounded := g.ctx.Deadline()
	cuts, own := 0, now.Add(g.timeout())
	for k := range g.jobs {
		j := &g.jobs[k]
		r := &j.task.req
		j.deadline, j.left = r.Deadline, len(r.Local)
		if j.deadline.IsZero() {
			j.deadline = own
		}
		if bounded && limit.Before(j.deadline) {
			j.deadline = limit
		}
		if j.left == 0 {
			g.end(j, nil)
			continue
		}
		if cuts < maxInFlight {
			cuts += j.left/min(minSlice, g.d.cfg.SliceSize) + 1
		}
	}
	g.skip()
	g.limit = min(max(cuts, 1), maxInFlight)
	if cap(g.done) < g.limit {
		g.done = make(chan *op, g.limit)
	}
	g.due = g.earliest()
}

// timeout is how long requests without a deadline may take, all together.
func (g *group) timeout() time.Duration {
	if g.d.cfg.Timeout > 0 {
		return g.d.cfg.Timeout
	}
	bytes := uint64(0)
	for k := range g.jobs {
		bytes += uint64(len(g.jobs[k].task.req.Local))
	}
	return Patience(bytes)
}

// skip moves next past jobs that are done with or cut up.
func (g *group) skip() {
	for g.next < len(g.jobs) && (g.jobs[g.next].ended || g.jobs[g.next].off == len(g.jobs[g.next].task.req.Local)) {
		g.next++
	}
}

func (g *group) recycle(s *slice) {
	*s = slice{}
	g.idle = append(g.idle, s)
}

// spare returns an empty slice.
func (g *group) spare() *slice {
	if n := len(g.idle); n > 0 {
		s := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return s
	}
	return new(slice)
}

func (g *group) note(p *peerPath) {
	if !slices.Contains(g.used, p) {
		g.used = append(g.used, p)
	}
}

// sliceOf is the slice that an op belongs to.
func sliceOf(o *op) *slice { return o.owner.(*slice) }
