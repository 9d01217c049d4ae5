package dispatch

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// await takes at least one ended slice, and all that have ended by then. It decides jobs at once
// whose deadline passes meanwhile, and all jobs when the caller gives up. When operations outlive
// their deadlines, or the time until which they may go on, it closes their paths, and then abandons
// them.
func (g *group) await() {
	g.poll()
	limit := g.bounded(g.latest.Add(path.Grace))
	stopped := g.ctx.Done()
	if g.stopped {
		stopped = nil
	}
	for closed, excused := false, false; ; {
		wake := limit
		if !g.due.IsZero() && g.due.Before(wake) {
			wake = g.due
		}
		g.timer.Reset(time.Until(wake))
		select {
		case o := <-g.done:
			g.timer.Stop()
			g.take(sliceOf(o))
			for len(g.done) > 0 {
				g.take(sliceOf(<-g.done))
			}
			return
		case <-stopped:
			stopped = nil
			g.stop()
			continue
		case <-g.timer.C:
		}
		now := time.Now()
		if !g.due.IsZero() && !now.Before(g.due) {
			g.expire(now, nil)
		}
		switch {
		case now.Before(limit):
		case !closed && now.Before(g.bounded(g.latest.Add(path.Grace))): // The time was extended.
			limit = g.bounded(g.latest.Add(path.Grace))
		case !excused && now.Sub(limit) >= asleep: // The transport did not run in time either.
			excused, limit = true, now.Add(path.Grace)
		default:
			if g.until != nil && !now.Before(g.until()) {
				g.endAll(g.lapsed())
			}
			g.giveUp(closed)
			closed, limit = true, time.Now().Add(2*path.Grace)
		}
	}
}

// bounded returns a time, or the end of the grace after the time until which the requests may go on,
// if that is earlier.
func (g *group) bounded(t time.Time) time.Time {
	if g.until != nil {
		if by := g.until().Add(path.Grace); by.Before(t) {
			return by
		}
	}
	return t
}

func (g *group) lapsed() error {
	return errs.Wrap(errs.TransferFail, "transfer: "+g.peer, request.ErrLapsed)
}

// poll polls for the answer of a peer, where that helps.
func (g *group) poll() {
	if len(g.used) == 1 && len(g.done) == 0 {
		if poll := g.used[0].Extras.Poll; poll != nil {
			poll(g.ready)
		}
	}
}

// giveUp closes the paths that carry ops of the group. The second time it abandons them.
func (g *group) giveUp(closed bool) {
	for _, p := range g.used {
		if !p.Slots.Carries(g.done) {
			continue
		}
		if closed {
			p.Abandon()
			continue
		}
		g.d.Log.Error("operations outlive their deadline, the path is closed", "peer", g.peer, "transport", p.Carrier.Name)
		ctx, cancel := context.WithTimeout(context.Background(), path.Grace)
		p.Close(ctx)
		cancel()
	}
}

// take handles a slice whose op has ended.
func (g *group) take(s *slice) {
	j := s.job
	g.inFlight--
	j.inFlight--
	s.held = false
	g.settle(s)
	switch {
	case s.Result.Status != transport.OK:
		g.failed(s)
	case j.touched && j.epoch != s.epoch:
		g.worked = true
		g.reject(s, errRestarted(g.peer))
	default:
		g.worked = true
		g.arrived(s)
	}
	switch {
	case j.ended:
		g.publish(j)
	case j.inFlight == 0 && (g.due.IsZero() || j.deadline.Before(g.due)):
		g.due = j.deadline
	}
}

// arrived counts the bytes of a slice.
func (g *group) arrived(s *slice) {
	j, n := s.job, uint64(len(s.Local))
	j.left -= int(n)
	j.touched, j.epoch = true, s.epoch
	j.task.Moved.Add(n)
	if r := &j.task.Req; s.Result.Summed && r.Sum {
		j.task.Sum.Add(s.Result.Sum, int(n), len(r.Local)-int(s.Addr-r.Addr)-int(n))
	}
	if s.Result.Grained && s.Grains.Sums != nil {
		j.task.Grained += int(n)
	}
	if !g.heard.IsZero() {
		g.heard = time.Now()
	}
	if g.moved != nil {
		g.moved.Add(n)
	}
	if s.Kind == transport.Read {
		g.d.Read.Add(n)
	} else {
		g.d.Wrote.Add(n)
	}
	g.recycle(s)
	if j.left == 0 {
		g.end(j, nil)
	}
}
