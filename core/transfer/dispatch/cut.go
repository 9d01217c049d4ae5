package dispatch

import (
	"github.com/mooncake-go/mooncake/core/memory"
)

// minSlice is the least size to which a request is cut so that all rails get a slice, in bytes.
// Smaller slices cost more in operations than another rail gains: 64 KiB take about a microsecond
// at 400 Gbit/s, no more than an operation's own latency.
const minSlice = 64 << 10

// measure decides the size of the slices. They are as large as allowed, since every one
// costs the same whatever its size, but small enough that a few requests keep all rails
// busy, and that several fit what a slow rail may have in flight.
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

// pull returns the next slice to be submitted, with its path and remote range chosen.
// It decides jobs that cannot go on.
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

// cut takes the next slice off the current job. It ends where the local region does: an
// operation has its memory in one region on either side.
func (g *group) cut() *slice {
	j := &g.jobs[g.next]
	r := &j.task.Req
	n := min(len(r.Local)-j.off, g.sliceSize)
	local := r.Local[j.off : j.off+n]
	at := memory.AddrOf(local)
	home := g.d.Regions.At(at)
	if home != nil && uint64(n) > home.End()-at {
		local = local[:home.End()-at]
	}
	s := g.newSlice()
	*s = slice{job: j, home: home, gen: g.route.Gen}
	s.Kind, s.Local, s.Addr, s.Hasty, s.Summed = r.Kind, local, r.Addr+uint64(j.off), r.Hasty, r.Sum
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
