package transfer

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// maxUnderway bounds the operations that one call has under way to one peer.
	maxUnderway = 256
	// maxBatch bounds the operations of one Submit.
	maxBatch = 32
)

// group is the requests of one call to one peer. One goroutine runs it; reapers only send
// into done.
type group struct {
	e       *Engine
	ctx     context.Context
	peer    string
	reqs    []Request
	results []Result
	index   []int // of the requests that are in the group

	p        *peer
	lane     lane
	renewed  bool // the peer was looked up anew on behalf of this group
	lost     bool // the peer does not answer
	worked   bool // something arrived
	jobs     []job
	next     int      // first job that is not cut up
	retry    []*slice // to be submitted before anything new
	idle     []*slice
	done     chan *slice
	underway int
	used     []*link   // what slices of the group were submitted to
	latest   time.Time // deadline of anything under way
	ops      []transport.Op
	batch    []*slice
}

// job is one request as the group sees it.
type job struct {
	req      *Request
	result   *Result
	deadline time.Time
	off      int // how far it is cut up
	left     int // bytes that did not arrive yet
	ended    bool
	// epoch of the peer from which bytes of this request were moved, if touched.
	epoch   uint64
	touched bool
}

func (g *group) run() {
	g.prepare()
	p, err := g.e.peer(g.peer)
	if err != nil {
		g.endAll(err)
		return
	}
	defer g.e.release(p)
	g.p = p
	if g.next == len(g.jobs) {
		return
	}
	if g.lane, err = g.connected(func(ctx context.Context) (lane, error) { return p.lane(ctx) }); err != nil {
		g.endAll(err)
		return
	}
	for {
		if err := g.ctx.Err(); err != nil {
			g.endAll(errs.Wrap(errs.TransferFail, "transfer: "+g.peer, err))
		}
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
	g.jobs = make([]job, len(g.index))
	cuts := 0
	for k, i := range g.index {
		r := &g.reqs[i]
		j := &g.jobs[k]
		*j = job{req: r, result: &g.results[i], deadline: r.Deadline, left: len(r.Local)}
		if j.deadline.IsZero() {
			j.deadline = now.Add(g.e.cfg.Timeout)
		}
		if bounded && limit.Before(j.deadline) {
			j.deadline = limit
		}
		if j.left == 0 {
			j.end(nil)
		}
		cuts += (j.left + g.e.cfg.SliceSize - 1) / g.e.cfg.SliceSize
	}
	g.skip()
	n := min(max(cuts, 1), maxUnderway)
	g.done = make(chan *slice, n)
	g.batch = make([]*slice, 0, min(n, maxBatch))
	g.ops = make([]transport.Op, 0, min(n, maxBatch))
}

// connected bounds a connect by the latest deadline of the jobs.
func (g *group) connected(f func(context.Context) (lane, error)) (lane, error) {
	var last time.Time
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.deadline.After(last) {
			last = j.deadline
		}
	}
	ctx, cancel := context.WithDeadline(g.ctx, last)
	defer cancel()
	return f(ctx)
}

// skip moves next past jobs that are done with or cut up.
func (g *group) skip() {
	for g.next < len(g.jobs) && (g.jobs[g.next].ended || g.jobs[g.next].off == len(g.jobs[g.next].req.Local)) {
		g.next++
	}
}

// await takes at least one ended slice, and all that ended by then. When operations
// outlive their deadlines, their paths are closed, and then given up.
func (g *group) await() {
	due := g.latest.Add(grace)
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for closed, excused := false, false; ; {
		select {
		case s := <-g.done:
			g.take(s)
			for len(g.done) > 0 {
				g.take(<-g.done)
			}
			return
		case <-timer.C:
		}
		if now := time.Now(); !excused && now.Sub(due) >= asleep { // Nor did the transport have its time.
			excused = true
			due = now.Add(grace)
			timer.Reset(grace)
			continue
		}
		for _, l := range g.used {
			if closed {
				l.abandon()
			} else {
				g.e.log.Error("operations outlive their deadline, the path is closed", "peer", g.peer, "transport", l.carrier.Name)
				ctx, cancel := context.WithTimeout(context.Background(), grace)
				l.close(ctx)
				cancel()
			}
		}
		closed = true
		due = time.Now().Add(2 * grace)
		timer.Reset(2 * grace)
	}
}

func (g *group) take(s *slice) {
	g.underway--
	s.held = false
	s.settle()
	j := s.job
	if s.result.Status != transport.OK {
		g.failed(s)
		return
	}
	g.worked = true
	if j.touched && j.epoch != s.epoch {
		g.reject(s, errRestarted(g.peer))
		return
	}
	j.left -= len(s.local)
	j.touched, j.epoch = true, s.epoch
	if s.kind == transport.Read {
		g.e.stats.read.Add(uint64(len(s.local)))
	} else {
		g.e.stats.wrote.Add(uint64(len(s.local)))
	}
	if j.left == 0 {
		j.end(nil)
	}
	g.recycle(s)
}

func (g *group) recycle(s *slice) {
	*s = slice{}
	g.idle = append(g.idle, s)
}

func (g *group) note(l *link) {
	if !slices.Contains(g.used, l) {
		g.used = append(g.used, l)
	}
}

// end decides a job; the first decision counts.
func (j *job) end(err error) {
	if !j.ended {
		j.ended = true
		j.result.Err, j.result.Done = err, time.Now()
	}
}

// endAll decides every job that is still open and drops what was not submitted.
func (g *group) endAll(err error) {
	for i := range g.jobs {
		g.jobs[i].end(err)
	}
	g.next = len(g.jobs)
	for _, s := range g.retry {
		g.unhold(s)
		g.recycle(s)
	}
	g.retry = g.retry[:0]
}
