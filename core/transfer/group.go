package transfer

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// maxUnderway bounds the operations that one call has under way to one peer.
	maxUnderway = 256
	// maxBatch bounds the operations of one Submit.
	maxBatch = 32
)

// group is the requests of one call to one peer. One goroutine runs it; reapers only send
// into done. Groups are used again after they ran.
type group struct {
	e    *Engine
	ctx  context.Context
	b    *Batch // nil for Transfer
	peer string

	began    time.Time
	p        *peer
	lane     lane
	renewed  bool // the peer was looked up anew on behalf of this group
	lost     bool // the peer does not answer
	worked   bool // something arrived
	stopped  bool // the caller gave up, and all jobs know
	jobs     []job
	next     int      // first job that is not cut up
	retry    []*slice // to be submitted before anything new
	idle     []*slice
	done     chan *slice
	underway int
	limit    int       // of underway; done has room for as many
	piece    int       // the size to cut, at most Config.SliceSize
	used     []*link   // what slices of the group were submitted to
	latest   time.Time // deadline of anything under way
	due      time.Time // first deadline of a job
	timer    *time.Timer
	ops      []transport.Op
	batch    []*slice
	ready    func() bool // whether something is done; made once
}

// newGroup returns an empty group to add jobs to and run.
func (e *Engine) newGroup(ctx context.Context, b *Batch, peer string) *group {
	g, ok := e.groups.Get().(*group)
	if !ok {
		g = &group{e: e, ops: make([]transport.Op, 0, maxBatch), batch: make([]*slice, 0, maxBatch), timer: time.NewTimer(time.Hour)}
		g.timer.Stop()
		g.ready = func() bool { return len(g.done) > 0 }
	}
	g.ctx, g.b, g.peer, g.began = ctx, b, peer, time.Now()
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
		e: g.e, jobs: g.jobs[:0], retry: g.retry[:0], idle: g.idle, done: g.done, used: g.used[:0],
		timer: g.timer, ops: g.ops[:0], batch: g.batch[:0], ready: g.ready,
	}
	g.e.groups.Put(g)
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
	p, err := g.e.peer(g.peer)
	if err != nil {
		g.endAll(err)
		return
	}
	defer g.e.release(p)
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
		case g.underway > 0:
			g.await()
		case blocked != nil:
			g.room(blocked)
		default:
			if g.worked && !g.lost {
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
		if cuts < maxUnderway {
			cuts += j.left/min(minPiece, g.e.cfg.SliceSize) + 1
		}
	}
	g.skip()
	g.limit = min(max(cuts, 1), maxUnderway)
	if cap(g.done) < g.limit {
		g.done = make(chan *slice, g.limit)
	}
	g.due = g.earliest()
}

// timeout is how long requests without a deadline may take, all together.
func (g *group) timeout() time.Duration {
	if g.e.cfg.Timeout > 0 {
		return g.e.cfg.Timeout
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

func (g *group) note(l *link) {
	if !slices.Contains(g.used, l) {
		g.used = append(g.used, l)
	}
}
