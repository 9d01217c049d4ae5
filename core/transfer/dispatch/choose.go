package dispatch

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// minSlice is the least size to which a request is cut so that all rails get a slice, in bytes.
// Smaller slices cost more in operations than another rail gains: 64 KiB take about a microsecond
// at 400 Gbit/s, no more than an operation's own latency.
const minSlice = 64 << 10

// measure decides the size of the slices. They are as large as allowed, since every one costs the
// same whatever its size, but small enough that a few requests keep all rails busy, and that
// several fit what a slow rail may have in flight.
func (g *group) measure() {
	g.sliceSize = g.d.Cfg.SliceSize
	n := 0
	for _, p := range g.route.Paths {
		if !p.Dead.Load() {
			n = p.Rails.Spread()
			g.sliceSize = min(g.sliceSize, max(p.Rails.Portion(), minSlice))
			break
		}
	}
	if n < 2 {
		return
	}
	total := 0
	for i := range g.jobs {
		total += g.jobs[i].left
	}
	const page = 4 << 10
	even := (total/n + page - 1) / page * page
	g.sliceSize = min(g.sliceSize, max(even, minSlice))
}

// pull returns the next slice to be submitted, with its path and remote range chosen. It decides
// jobs that cannot go on.
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

// cut takes the next slice off the current job. It ends where the local region does: an operation
// has its memory in one region on either side.
func (g *group) cut() *slice {
	j := &g.jobs[g.next]
	r := &j.task.Req
	n := min(len(r.Local)-j.off, g.sliceSize)
	if r.Grains.Sums != nil {
		if at := r.Grains.Border(j.off, j.off+n, len(r.Local)); at-j.off <= g.sliceSize {
			n = at - j.off
		}
	}
	local := r.Local[j.off : j.off+n]
	at := memory.AddrOf(local)
	home := g.d.Regions.At(at)
	if home != nil && uint64(n) > home.End()-at {
		local = local[:home.End()-at]
	}
	s := g.newSlice()
	*s = slice{job: j, home: home, gen: g.route.Gen}
	s.Kind, s.Local, s.Addr, s.Hasty, s.Summed, s.Grant = r.Kind, local, r.Addr+uint64(j.off), r.Hasty, r.Sum, r.Grant
	if r.Grains.Sums != nil {
		s.Grains, _ = r.Grains.Cut(j.off, j.off+len(local), len(r.Local))
	}
	s.Done, s.Owner = g.done, s
	j.off += len(local)
	g.skip()
	return s
}

// shorten splits a slice that finds its rail crowded, if it was cut before the rail was known to be
// slow. The slice no longer holds a share of the window then.
func (g *group) shorten(s *slice) bool {
	g.measure()
	if len(s.Local) <= g.sliceSize {
		return false
	}
	g.unhold(s)
	g.split(s, g.sliceSize)
	return true
}

// direct chooses the path of a slice. It returns false when the slice was dropped, or waits for a
// new lookup of the peer.
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
	case j.touched && j.epoch != g.route.Epoch:
		g.unhold(s)
		g.reject(s, errRestarted(g.peer))
		return false
	}
	if s.held {
		if v := s.path.Rails.Look(&s.Tried); v == rail.Ready || v == rail.Busy || s.Force {
			return true // Nothing changed since its path was chosen.
		}
		g.unhold(s)
	}
	if s.gen != g.route.Gen {
		s.gen = g.route.Gen
		s.toPath(0)
	}
	s.epoch = g.route.Epoch
	rung, missing := g.ladder(s)
	if rung < 0 {
		g.exhausted(s, missing)
		return false
	}
	p := g.route.Paths[rung]
	r, _ := p.Find(s.Addr)
	if rung != s.rung {
		s.toPath(rung)
	}
	s.path, s.Remote = p, r
	v := p.Rails.Look(&s.Tried)
	if s.Force = v == rail.Paused; v != rail.Down {
		s.waiting = time.Time{}
	}
	if room := r.Addr + r.Length - s.Addr; room < uint64(len(s.Local)) {
		g.split(s, int(room))
	}
	return true
}

// ladder returns the index of the first path, from the slice's on, that knows the memory on both
// sides and has a rail in order; failing that, the first with a paused rail; failing that, the
// first whose rails are all down, for which the slice waits a while; failing that, one that does
// not know the local memory, and reports that. It returns -1 for none. With missing, a path did not
// know the range.
func (g *group) ladder(s *slice) (rung int, missing bool) {
	paused, down, unfit := -1, -1, -1
	for i := s.rung; i < len(g.route.Paths); i++ {
		p := g.route.Paths[i]
		if p.Dead.Load() {
			continue
		}
		if _, ok := p.Find(s.Addr); !ok {
			missing = true
			continue
		}
		if g.d.Staging == nil && !p.Knows(s.home) {
			unfit = i
			continue
		}
		tried := &s.Tried
		if i != s.rung {
			tried = &rail.Bitset{}
		}
		switch p.Rails.Look(tried) {
		case rail.Ready, rail.Busy:
			return i, missing
		case rail.Paused:
			if paused < 0 {
				paused = i
			}
		case rail.Down:
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
	if now.Sub(s.waiting) < g.d.Cfg.SliceTimeout {
		return down, missing
	}
	p := g.route.Paths[down]
	s.Result = transport.Completion{Err: errs.WithHint(errs.WithClass(errs.ClassTransientPath, "transport/"+p.Carrier.Name,
		errs.New(errs.TransferFail, "", "every rail is down: %s", p.Rails.Names())), "look at the links of the devices, here and there")}
	return -1, missing
}
