package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fill submits as much as there is space for. It returns the slice that found no space, nil when
// everything is in flight or decided.
func (g *group) fill() *slice {
	for g.inFlight < g.limit {
		g.batch = g.batch[:0]
		var blocked *slice
		for len(g.batch) < cap(g.batch) && g.inFlight+len(g.batch) < g.limit {
			s := g.pull()
			if s == nil {
				break
			}
			if len(g.batch) > 0 && s.path != g.batch[0].path {
				g.push(s)
				break
			}
			if !g.reserve(s) {
				short := s.Crowded && g.shorten(s)
				g.push(s)
				if short {
					continue
				}
				blocked = s
				break
			}
			g.batch = append(g.batch, s)
		}
		if len(g.batch) == 0 {
			return blocked
		}
		if g.prune(); len(g.batch) == 0 {
			continue
		}
		if s := g.submit(); s != nil {
			return s
		}
	}
	return nil
}

// prune drops slices that must not be submitted any more: a slice that was pulled later can have
// decided, and so published, their job, or the time in which its operations may begin is over.
func (g *group) prune() {
	now := time.Now()
	g.batch = slices.DeleteFunc(g.batch, func(s *slice) bool {
		if until := s.job.task.Req.Until; until != nil && !s.job.ended && !now.Before(until()) {
			g.end(s.job, g.lapsed())
		}
		if !s.job.ended {
			return false
		}
		s.path.Rails.Untake(1, func(int) *rail.Claim { return &s.Claim }, false)
		g.unhold(s)
		g.recycle(s)
		return true
	})
	g.skip()
}

// submit hands the batch over and returns the first slice that met back-pressure.
func (g *group) submit() *slice {
	p := g.batch[0].path
	g.note(p)
	now := time.Now()
	g.ops = g.ops[:0]
	for _, s := range g.batch {
		g.ops = append(g.ops, &s.Op)
		s.bound(now, g.d.Cfg.SliceTimeout)
		if s.Deadline.After(g.latest) {
			g.latest = s.Deadline
		}
		// This comes before submission: from then on the slice is the reaper's, and may be back.
		s.job.inFlight++
		if !s.job.pending {
			s.job.pending = true
			s.job.task.State.Store(uint32(request.Pending))
		}
	}
	n, err := p.Submit(g.ops, g.scratch)
	g.inFlight += n
	clear(g.ops)
	rest := g.batch[n:]
	for _, s := range rest {
		s.job.inFlight--
	}
	if len(rest) == 0 {
		return nil
	}
	p.Rails.Untake(len(rest), func(i int) *rail.Claim { return &rest[i].Claim }, err == nil)
	for i := len(rest) - 1; i > 0; i-- { // The refused one is looked at below.
		g.push(rest[i])
	}
	s := rest[0]
	if err == nil {
		g.push(s)
		return s
	}
	g.unhold(s)
	s.Result = transport.Completion{Status: transport.Failed, Err: errs.Wrap(errs.TransferFail, "transport/"+p.Carrier.Name, err)}
	g.failed(s)
	return nil
}

// reserve takes the slice's share of the window, where needed a staging buffer, and its place on a
// rail. It returns false when there is no space now.
func (g *group) reserve(s *slice) bool {
	if !s.waiting.IsZero() {
		return false
	}
	if !s.held {
		if !s.path.Window.TryAcquire(int64(len(s.Local))) {
			return false
		}
		s.held = true
	}
	if g.staged(s) {
		b, ok := g.d.Staging.TryGet(len(s.Local))
		if !ok {
			return false
		}
		g.stage(s, b)
	}
	return s.path.Rails.Take(&s.Claim, len(s.Local), s.places())
}

// waitForSpace waits for the space that reserve or submit missed, while the group has nothing in
// flight whose end could free it.
func (g *group) waitForSpace(s *slice) {
	limit := s.job.deadline
	if s.hasty() {
		now := time.Now()
		if now.Sub(g.heard) >= g.d.Cfg.Haste && s.path.SilentSince(now.Add(-g.d.Cfg.Haste)) {
			g.leave(errNoSpace)
			return
		}
		if leave := now.Add(g.d.Cfg.Haste); leave.Before(limit) {
			limit = leave
		}
	}
	ctx, cancel := context.WithDeadline(g.ctx, limit)
	defer cancel()
	switch {
	case !s.waiting.IsZero():
		g.pause(ctx, s.path, railPoll)
		s.path.Rails.Refresh()
	case !s.held:
		if s.path.Window.Acquire(ctx, int64(len(s.Local))) == nil {
			s.held = true
		}
	case g.staged(s):
		if b, err := g.d.Staging.Get(ctx, len(s.Local)); err == nil {
			g.stage(s, b)
		}
	default:
		// The transport refused for lack of space: others reap, or it does not tell when it has
		// some.
		wait := time.Millisecond
		if s.Crowded { // At the measured speed it takes at least that long.
			wait = railPoll
		}
		g.pause(ctx, s.path, wait)
		s.path.Rails.Drained()
	}
	// If the wait failed, the checks of the deadline and the context find that.
}

// railPoll is how often the rails of a path are checked while all are down, or have as much in
// flight as they can move in a while.
const railPoll = 10 * time.Millisecond

// pause waits until something ended on the path, at most for d.
func (g *group) pause(ctx context.Context, p *path.Path, d time.Duration) {
	g.timer.Reset(d)
	defer g.timer.Stop()
	select {
	case <-p.Space:
	case <-g.timer.C:
	case <-ctx.Done():
	}
}
