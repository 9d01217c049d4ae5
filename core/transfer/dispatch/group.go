package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// maxInFlight bounds the operations that one call has in flight to one peer.
	maxInFlight = 256
	// maxBatch bounds the operations of one Submit.
	maxBatch = 32
)

// group is the requests of one call to one peer. One goroutine runs it; reapers only send into
// done. Groups are pooled.
type group struct {
	d     *Dispatcher
	ctx   context.Context
	owner Observer       // nil for a transfer without one
	moved *atomic.Uint64 // that of the batch, nil without one
	peer  string

	began      time.Time
	p          *peer.Peer
	route      peer.Route
	renewed    bool      // the peer was looked up anew for this group
	silentPeer bool      // the peer does not answer
	worked     bool      // something arrived
	heard      time.Time // when something arrived last, in a group with hasty reads; zero in another
	stopped    bool      // the caller gave up, and all jobs have ended
	jobs       []job
	next       int      // first job that is not cut up
	retry      []*slice // to be submitted before anything new
	idle       []*slice
	done       chan *path.Op
	inFlight   int
	limit      int              // of inFlight; done has space for as many
	sliceSize  int              // at most Config.SliceSize
	used       []*path.Path     // the paths to which slices of the group were submitted
	latest     time.Time        // the last deadline of anything in flight
	due        time.Time        // first deadline of a job
	until      func() time.Time // see request.Request
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
	if s.Grains.Sums != nil {
		all := len(s.Local)
		rest.Grains, _ = s.Grains.Cut(n, all, all)
		s.Grains, _ = s.Grains.Cut(0, n, all)
	}
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

// earliest returns the first deadline of the open jobs of which nothing is in flight, zero without
// any. An op in flight has a deadline of its own.
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

// end decides a job; the first decision counts.
func (g *group) end(j *job, err error) {
	if j.ended {
		return
	}
	j.ended, j.err, j.done = true, err, time.Now()
	g.publish(j)
}

// publish makes the end of a job known when its memory is not touched any more.
func (g *group) publish(j *job) {
	if !j.ended || j.published || j.inFlight > 0 {
		return
	}
	j.published = true
	finish(g.owner, j.task, j.err, j.done)
}

// finish makes a task terminal. The observer may be nil.
func finish(o Observer, t *request.Task, err error, at time.Time) {
	if o == nil {
		t.Finish(request.StateOf(err), err, at)
		return
	}
	o.Finish(t, request.StateOf(err), err, at)
}

// endAll decides every job that is still open and drops what was not submitted.
func (g *group) endAll(err error) {
	for i := range g.jobs {
		g.end(&g.jobs[i], err)
	}
	g.next = len(g.jobs)
	for _, s := range g.retry {
		g.unhold(s)
		g.recycle(s)
	}
	g.retry = g.retry[:0]
	g.due = time.Time{}
}

// stop ends everything when the caller gave up.
func (g *group) stop() {
	if err := ended(g.ctx); err != nil {
		g.stopped = true
		g.endAll(errs.Wrap(errs.TransferFail, "transfer: "+g.peer, err))
	}
}

// reject decides a slice's job and drops the slice.
func (g *group) reject(s *slice, err error) {
	j := s.job
	g.recycle(s)
	g.end(j, err)
	g.skip()
}

// quarantine decides a job even if it was decided, since the caller has to learn that the memory
// may be touched. The job was not published, because the slice was in flight.
func (g *group) quarantine(j *job, err error) {
	if j.ended && j.err != nil {
		j.err = fmt.Errorf("%w; also %w", err, j.err)
		return
	}
	j.ended, j.err, j.done = true, err, time.Now()
}

// expire ends the jobs whose deadline passed while they wait.
func (g *group) expire(now time.Time, cause error) {
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.inFlight == 0 && !now.Before(j.deadline) {
			g.end(j, g.late(cause))
		}
	}
	g.skip()
	g.due = g.earliest()
}

// leave ends the hasty reads, whose callers have other copies. That the peer was silent for a moment
// does not count against it here: others have to wait for it.
func (g *group) leave(cause error) {
	err := errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", fmt.Errorf("%w: %w", request.ErrStalled, cause)))
	for i := range g.jobs {
		if g.jobs[i].hasty() {
			g.end(&g.jobs[i], err)
		}
	}
	g.skip()
	g.due = g.earliest()
}

// late is the error of a job whose deadline passed.
func (g *group) late(cause error) error {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	return errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", fmt.Errorf("%w: %w", request.ErrTimeout, cause)))
}

// errRestarted keeps the memory of two generations of a peer from being mixed in one request.
func errRestarted(peer string) error {
	return errs.New(errs.TransferFail, "transfer: "+peer, "the peer restarted in the middle of the request")
}

// ended returns why a context ended, nil while it has not.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err { //nolint:errorlint // identity is meant
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// staged reports whether a slice still needs a staging buffer: its transport moves only registered
// memory and the caller's is not registered with it.
func (g *group) staged(s *slice) bool {
	return s.Staging == nil && g.d.Staging != nil && !s.path.Knows(s.home)
}

func (g *group) stage(s *slice, b *memory.Buffer) {
	s.Staging = b
	g.d.Staged.Add(uint64(len(s.Local)))
	if s.Kind == transport.Write {
		copy(b.Bytes(), s.Local)
	}
}

// settle ends the use of a staging buffer after the operation ended. The buffer of a read that may
// still be written is never lent again; the caller's memory is safe then, so that the read may be
// retried. For a write only the peer's memory is indeterminate.
func (g *group) settle(s *slice) {
	switch b := s.Staging; {
	case b == nil:
		return
	case s.Kind == transport.Read && s.Result.Status == transport.Quarantined:
		g.d.Quarantined.Add(1)
		s.Result.Status = transport.Failed
	default:
		if s.Kind == transport.Read && s.Result.Status == transport.OK {
			copy(s.Local, b.Bytes())
		}
		b.Release()
	}
	s.Staging = nil
}

// unhold gives back what a slice reserved, when it is not in flight.
func (g *group) unhold(s *slice) {
	if s.held {
		s.held = false
		s.path.Window.Release(int64(len(s.Local)))
		s.path.Signal()
	}
	if s.Staging != nil {
		s.Staging.Release()
		s.Staging = nil
	}
}
