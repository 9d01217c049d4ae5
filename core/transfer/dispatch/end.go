package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

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
	j.task.Finish(request.StateOf(j.err), j.err, j.done)
	if g.owner != nil {
		g.owner.Ended(j.task)
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
