package transfer

import (
	"github.com/mooncake-go/mooncake/core/memory"
)

// minPiece is the least that a request is cut to so that all rails get a part, in bytes.
// Less costs more operations than another rail gains: 64 KiB are about a microsecond at
// 400 Gbit/s, no more than an operation's own latency.
const minPiece = 64 << 10

// measure decides the size of the pieces. Slices are as large as allowed, since every one
// costs the same whatever its size, but small enough that a few requests keep all rails
// busy, and that several fit what a slow rail may have in flight.
func (g *group) measure() {
	g.piece = g.e.cfg.SliceSize
	n := 0
	for _, l := range g.lane.links {
		if !l.dead.Load() {
			n = l.rails.spread()
			g.piece = min(g.piece, max(l.rails.portion(), minPiece))
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
	g.piece = min(g.piece, max(even, minPiece))
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

// cut takes the next slice off the current job. It ends where the local region does: an
// operation has its memory in one region on either side.
func (g *group) cut() *slice {
	j := &g.jobs[g.next]
	r := &j.task.req
	n := min(len(r.Local)-j.off, g.piece)
	local := r.Local[j.off : j.off+n]
	at := memory.AddrOf(local)
	home := g.e.regions.at(at)
	if home != nil && uint64(n) > home.end()-at {
		local = local[:home.end()-at]
	}
	s := g.spare()
	*s = slice{group: g, job: j, kind: r.Kind, addr: r.Addr + uint64(j.off), local: local, home: home, gen: g.lane.gen}
	j.off += len(local)
	g.skip()
	return s
}

// shorten splits a slice that finds its rail crowded, if it was cut before the rail was known to be
// slow. The slice no longer holds a share of the window then.
func (g *group) shorten(s *slice) bool {
	g.measure()
	if len(s.local) <= g.piece {
		return false
	}
	g.unhold(s)
	g.split(s, g.piece)
	return true
}

// split shortens a slice to n bytes and queues the rest.
func (g *group) split(s *slice, n int) {
	rest := g.spare()
	*rest = *s
	rest.local, rest.addr = s.local[n:], s.addr+uint64(n)
	s.local = s.local[:n]
	g.push(rest)
}
