package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// failed decides what becomes of a slice that ended without success: the same link once
// more, the next link, the peer looked up anew, or the end of its job.
func (g *group) failed(s *slice) {
	j, c := s.job, s.result
	err := c.Err
	if err == nil {
		err = errors.New("the transport reported a failure without a reason")
	}
	class := errs.ClassOf(err)
	switch {
	case c.Status == transport.Quarantined:
		g.e.stats.quarantined.Add(1)
		j.quarantine(errs.Wrap(errs.TransferFail, "transfer: "+g.peer, fmt.Errorf("%w: %w", ErrQuarantined, err)))
		g.recycle(s)
		return
	case j.ended:
		g.recycle(s)
		return
	case class == errs.ClassPermanent:
		g.reject(s, errs.Wrap(errs.CodeOf(err), "transfer: "+g.peer, err))
		return
	case !time.Now().Before(j.deadline):
		g.stalled(s)
		g.reject(s, g.late(err))
		return
	}
	silent := g.silent(s)
	if silent && s.rail+1 >= len(g.lane.links) {
		// Another attempt would take as long again; the caller may have another copy.
		g.stalled(s)
		g.recycle(s)
		g.endAll(g.late(err))
		return
	}
	g.e.stats.retries.Add(1)
	again := !silent && (class == errs.ClassTransientPath || class == errs.ClassUnknown)
	switch {
	case again && !s.again && !s.link.dead.Load():
		s.again = true
	case class == errs.ClassTransientPeer:
		s.rail, s.again = len(g.lane.links), false
	default:
		s.rail, s.again = s.rail+1, false
		g.e.stats.failovers.Add(1)
	}
	s.result = transport.Completion{Err: err}
	g.push(s)
}

// exhausted is the end of the links for a slice: the peer is looked up anew once, since it
// may have restarted or registered more memory. missing: it has no such memory.
func (g *group) exhausted(s *slice, missing bool) {
	cause := s.result.Err
	if missing && cause == nil {
		if g.renewed || g.p.recent() {
			err := errs.New(errs.InvalidReplica, "transfer: "+g.peer, "%d bytes at %#x are not in its registered memory", len(s.local), s.addr)
			g.reject(s, errs.WithClass(errs.ClassTransientPeer, "", err))
			return
		}
	}
	if cause == nil {
		cause = errors.New("no path to it works")
	}
	if !g.renewed {
		g.renewed = true
		gen := g.lane.gen
		ln, err := g.connected(func(ctx context.Context) (lane, error) { return g.p.renew(ctx, gen) })
		if err == nil {
			g.lane = ln
			g.push(s)
			return
		}
		g.lost = true
		cause = err
	} else {
		g.lost = true
		g.p.failed(cause)
	}
	g.recycle(s)
	g.endAll(errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", cause)))
}

// reject decides a slice's job and drops the slice.
func (g *group) reject(s *slice, err error) {
	s.job.end(err)
	g.recycle(s)
	g.skip()
}

// silent reports whether a slice ran into its deadline while nothing came over its link,
// although this process was there to see it.
func (g *group) silent(s *slice) bool {
	late := time.Since(s.deadline)
	return late >= 0 && late < asleep && s.link.lastOK.Load() < int64(s.started.Sub(g.e.born))
}

// stalled notes a peer that was silent for a while worth mentioning: a caller in a hurry
// says nothing about its peer.
func (g *group) stalled(s *slice) {
	if g.lost || time.Since(s.started) < g.e.cfg.CoolDown || !g.silent(s) {
		return
	}
	g.lost = true
	g.p.failed(s.result.Err)
	g.p.stale()
}

// late is the error of a job whose deadline passed.
func (g *group) late(cause error) error {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	return errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "deadline passed", cause))
}

// quarantine decides a job even if it was decided: that the memory may be touched has to
// reach the caller.
func (j *job) quarantine(err error) {
	if j.ended && j.result.Err != nil {
		j.result.Err = fmt.Errorf("%w; also %w", err, j.result.Err)
		return
	}
	j.ended = true
	j.result.Err, j.result.Done = err, time.Now()
}

// errRestarted keeps the memory of two lives of a peer from being mixed in one request.
func errRestarted(peer string) error {
	return errs.New(errs.TransferFail, "transfer: "+peer, "the peer restarted in the middle of the request")
}
