package transfer

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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
	case j.touched && j.epoch != g.route.epoch:
		g.unhold(s)
		g.reject(s, errRestarted(g.peer))
		return false
	}
	if s.held {
		if v := s.path.rails.look(&s.tried); v == railReady || v == railBusy || s.force {
			return true // Nothing changed since its link was chosen.
		}
		g.unhold(s)
	}
	if s.gen != g.route.gen {
		s.gen = g.route.gen
		s.toPath(0)
	}
	s.epoch = g.route.epoch
	rung, missing := g.ladder(s)
	if rung < 0 {
		g.exhausted(s, missing)
		return false
	}
	p := g.route.paths[rung]
	r, _ := p.find(s.addr)
	if rung != s.rung {
		s.toPath(rung)
	}
	s.path, s.remote = p, r
	v := p.rails.look(&s.tried)
	if s.force = v == railPaused; v != railDown {
		s.waiting = time.Time{}
	}
	if room := r.addr + r.length - s.addr; room < uint64(len(s.local)) {
		g.split(s, int(room))
	}
	return true
}

// ladder returns the index of the first link, from the slice's on, that knows the memory on
// both sides and has a rail in order; failing that, the first with a paused rail; failing
// that, the first whose rails are all down, for which the slice waits a while; failing that,
// one that does not know the local memory, and will say so. -1 for none; missing: a link
// did not know the range.
func (g *group) ladder(s *slice) (rung int, missing bool) {
	paused, down, unfit := -1, -1, -1
	for i := s.rung; i < len(g.route.paths); i++ {
		p := g.route.paths[i]
		if p.dead.Load() {
			continue
		}
		if _, ok := p.find(s.addr); !ok {
			missing = true
			continue
		}
		if g.d.staging == nil && !p.knows(s.home) {
			unfit = i
			continue
		}
		tried := &s.tried
		if i != s.rung {
			tried = &bitset{}
		}
		switch p.rails.look(tried) {
		case railReady, railBusy:
			return i, missing
		case railPaused:
			if paused < 0 {
				paused = i
			}
		case railDown:
			if down < 0 {
				down = i
			}
		}
	}
	if paused >= 0 {
		return paused, missing
	}
	if down < 0 {
		return unfit, missing
	}
	now := time.Now()
	if s.waiting.IsZero() {
		s.toPath(down)
		s.waiting = now
	}
	if now.Sub(s.waiting) < g.d.cfg.SliceTimeout {
		return down, missing
	}
	p := g.route.paths[down]
	s.result = transport.Completion{Err: errs.WithHint(errs.WithClass(errs.ClassTransientPath, "transport/"+p.carrier.Name,
		errs.New(errs.TransferFail, "", "every rail is down: %s", p.rails.names())), "look at the links of the devices, here and there")}
	return -1, missing
}
