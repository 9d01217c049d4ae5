package transfer

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// job is one request as its group sees it.
type job struct {
	task     *task
	deadline time.Time
	off      int // how far it is cut up
	left     int // bytes that did not arrive yet
	inFlight int // slices that a transport has
	pending  bool

	// ended: it is decided. published: the task says so, which it does once nothing of the
	// job is under way any more.
	ended, published bool
	err              error
	done             time.Time

	// epoch of the peer from which bytes of this request were moved, if touched.
	epoch   uint64
	touched bool
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
	j.task.finish(stateOf(j.err), j.err, j.done)
	if g.owner != nil {
		g.owner.ended(j.task)
	}
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

// quarantine decides a job even if it was decided: that the memory may be touched has to
// reach the caller. The job was not published, since the slice was under way.
func (g *group) quarantine(j *job, err error) {
	if j.ended && j.err != nil {
		j.err = fmt.Errorf("%w; also %w", err, j.err)
		return
	}
	j.ended, j.err, j.done = true, err, time.Now()
}
