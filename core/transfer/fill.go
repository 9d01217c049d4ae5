package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fill submits as much as there is room for. It returns the slice that found no room, nil
// when everything is under way or decided.
func (g *group) fill() *slice {
	for g.underway < cap(g.done) {
		g.batch = g.batch[:0]
		var blocked *slice
		for len(g.batch) < cap(g.batch) && g.underway+len(g.batch) < cap(g.done) {
			s := g.pull()
			if s == nil {
				break
			}
			if len(g.batch) > 0 && s.link != g.batch[0].link {
				g.push(s)
				break
			}
			if !g.reserve(s) {
				g.push(s)
				blocked = s
				break
			}
			g.batch = append(g.batch, s)
		}
		if len(g.batch) == 0 {
			return blocked
		}
		if s := g.submit(); s != nil {
			return s
		}
	}
	return nil
}

// submit hands the batch over and returns the first slice that met back-pressure.
func (g *group) submit() *slice {
	l := g.batch[0].link
	g.note(l)
	now := time.Now()
	for _, s := range g.batch {
		s.started, s.deadline = now, now.Add(g.e.cfg.SliceTimeout)
		if s.job.deadline.Before(s.deadline) {
			s.deadline = s.job.deadline
		}
		if s.deadline.After(g.latest) {
			g.latest = s.deadline
		}
	}
	// Counted first: the reaper may be faster than this goroutine.
	n, err := l.submit(g.batch, g.ops)
	g.underway += n
	rest := g.batch[n:]
	if len(rest) == 0 {
		return nil
	}
	for i := len(rest) - 1; i > 0; i-- { // The refused one is looked at below.
		g.push(rest[i])
	}
	s := rest[0]
	if err == nil {
		g.push(s)
		return s
	}
	g.unhold(s)
	s.result = transport.Completion{Status: transport.Failed, Err: errs.Wrap(errs.TransferFail, "transport/"+l.carrier.Name, err)}
	s.settle()
	g.failed(s)
	return nil
}

// pull returns the next slice to be submitted, with its link and remote range chosen.
// Jobs that cannot go on are decided on the way.
func (g *group) pull() *slice {
	for {
		var s *slice
		if n := len(g.retry); n > 0 {
			s = g.retry[n-1]
			g.retry = g.retry[:n-1]
		} else if g.next < len(g.jobs) {
			s = g.cut()
		} else {
			return nil
		}
		if s != nil && g.direct(s) {
			return s
		}
	}
}

// push puts a slice back to be submitted next.
func (g *group) push(s *slice) { g.retry = append(g.retry, s) }

// cut takes the next slice off the current job; its length is settled by direct.
func (g *group) cut() *slice {
	j := &g.jobs[g.next]
	var s *slice
	if n := len(g.idle); n > 0 {
		s, g.idle = g.idle[n-1], g.idle[:n-1]
	} else {
		s = new(slice)
	}
	n := min(len(j.req.Local)-j.off, g.e.cfg.SliceSize)
	*s = slice{group: g, job: j, kind: j.req.Kind, addr: j.req.Addr + uint64(j.off), local: j.req.Local[j.off : j.off+n], gen: g.lane.gen}
	j.off += n
	// A slice that would cross into the peer's next range ends where the range does.
	for _, l := range g.lane.links {
		if l.dead.Load() {
			continue
		}
		if r, ok := l.find(s.addr); ok {
			if room := r.addr + r.length - s.addr; uint64(n) > room {
				j.off -= n - int(room)
				s.local = s.local[:room]
			}
		}
		break
	}
	g.skip()
	return s
}

// direct chooses the link of a slice. False: the slice was dropped, or waits for the peer
// to be looked up anew.
func (g *group) direct(s *slice) bool {
	j := s.job
	switch {
	case j.ended:
		g.unhold(s)
		g.recycle(s)
		return false
	case !time.Now().Before(j.deadline):
		g.unhold(s)
		g.reject(s, g.late(nil))
		return false
	case j.touched && j.epoch != g.lane.epoch:
		g.unhold(s)
		g.reject(s, errRestarted(g.peer))
		return false
	}
	if s.held {
		return true // Nothing changed since its link was chosen.
	}
	if s.gen != g.lane.gen {
		s.gen, s.rail, s.again = g.lane.gen, 0, false
	}
	s.epoch = g.lane.epoch
	for missing := false; ; s.rail++ {
		if s.rail >= len(g.lane.links) {
			g.exhausted(s, missing)
			return false
		}
		l := g.lane.links[s.rail]
		if l.dead.Load() {
			continue
		}
		r, ok := l.find(s.addr)
		if !ok || r.addr+r.length-s.addr < uint64(len(s.local)) {
			missing = true
			continue
		}
		s.link, s.remote = l, r
		return true
	}
}

// reserve takes the slice's share of the window and, where needed, a staging buffer. False
// when there is no room now.
func (g *group) reserve(s *slice) bool {
	if !s.held {
		if !s.link.window.TryAcquire(int64(len(s.local))) {
			return false
		}
		s.held = true
	}
	if !g.staged(s) {
		return true
	}
	b, ok := g.e.staging.TryGet(len(s.local))
	if ok {
		g.stage(s, b)
	}
	return ok
}

// room waits for what reserve or submit found missing, while nothing of the group is under
// way that could make room.
func (g *group) room(s *slice) {
	ctx, cancel := context.WithDeadline(g.ctx, s.job.deadline)
	defer cancel()
	switch {
	case !s.held:
		if s.link.window.Acquire(ctx, int64(len(s.local))) == nil {
			s.held = true
		}
	case g.staged(s):
		if b, err := g.e.staging.Get(ctx, len(s.local)); err == nil {
			g.stage(s, b)
		}
	default:
		// Back-pressure of the transport: others reap, or it tells nobody when it has room.
		t := time.NewTimer(time.Millisecond)
		defer t.Stop()
		select {
		case <-s.link.space:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	// A wait that failed is found by the deadline or by the context.
}

// unhold gives back what a slice reserved without being under way.
func (g *group) unhold(s *slice) {
	if s.held {
		s.held = false
		s.link.window.Release(int64(len(s.local)))
		notify(s.link.space)
	}
	if s.staging != nil {
		s.staging.Release()
		s.staging = nil
	}
}
