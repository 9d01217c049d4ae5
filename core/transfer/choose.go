package transfer

import (
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// probeEvery is how many slices go where they are expected to be fastest before one goes
// where none went for longest, so that a rail that became fast is noticed. Upstream's TENT
// probes 1 % as well.
const probeEvery = 100

const (
	// startBytes is how much a rail may have in flight before its speed is known, in bytes.
	startBytes = 4 << 20
	// ahead is the part of Config.SliceTimeout that a rail may have in flight at the speed that
	// was measured. More would be of no use to it, and would hold up whatever comes next, be
	// sent again when the rail fails, and keep those waiting who cancel.
	ahead = 2
)

// crowded reports whether a rail has as much in flight as it can move in a while, so that n
// bytes more have to wait. A rail with nothing in flight takes anything. r.mu is held.
func (r *rails) crowded(w *rail, n int64) bool {
	switch {
	case w.bytes == 0:
		return false
	case w.speed.mean == 0:
		return w.bytes+n > startBytes
	}
	return float64(w.bytes+n)/w.speed.peak > (r.cfg.SliceTimeout / ahead).Seconds()
}

// portions is how many slices a rail may have in flight at the least: with one or two of them it
// would stand idle while the last bytes of one are on their way.
const portions = 8

// portion is the most bytes of a slice that leave room for so many on the fastest rail, a multiple
// of a page. It is unbounded while a rail has not been measured.
func (r *rails) portion() int {
	const page = 4 << 10
	r.mu.Lock()
	defer r.mu.Unlock()
	peak := 0.0
	for _, w := range r.list {
		if w.speed.mean == 0 {
			return math.MaxInt
		}
		peak = max(peak, w.speed.peak)
	}
	bytes := peak * (r.cfg.SliceTimeout / ahead).Seconds() / portions
	return int(min(bytes, math.MaxInt32)) / page * page
}

// take counts a slice on the rail that is expected to move it soonest, among those that
// the places of its memory prefer. False when all those are full or crowded.
func (r *rails) take(s *slice) bool {
	now := time.Now()
	n := int64(len(s.local))
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *rail
	var soonest float64
	s.crowded = false
	tier := ^uint8(0)
	probe := r.turn%probeEvery == probeEvery-1
	for _, c := range r.tiersOf(s) {
		if c.tier > tier {
			break
		}
		w := r.list[c.rail]
		if !w.Up || s.tried.has(w.index) || !s.force && !w.health.open(now, w.slices) {
			continue
		}
		tier = c.tier
		if w.full {
			continue
		}
		if r.crowded(w, n) {
			s.crowded = true
			continue
		}
		at := float64(w.bytes+n) / w.speed.guess(r.fastest)
		if probe {
			at = float64(w.turn)
		}
		if best == nil || at < soonest || at == soonest && w.turn < best.turn {
			best, soonest = w, at
		}
	}
	if best == nil {
		return false
	}
	r.turn++
	best.turn = r.turn
	best.slices++
	best.bytes += n
	s.way, s.queued, s.eta, s.crowded = best, best.bytes, best.speed.eta(best.bytes), false
	return true
}

// untake gives back the places of slices that were not accepted; full: for lack of room.
func (r *rails) untake(batch []*slice, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		s.way.slices--
		s.way.bytes -= int64(len(s.local))
	}
	// A rail is full until something ends on it. With nothing under way it is the path that
	// has no room, which says nothing about the rail.
	if w := batch[0].way; full && w.slices > 0 {
		w.full = true
	}
}

// done counts the end of a slice. now is when it was reaped.
func (r *rails) done(s *slice, c transport.Completion, now time.Time) {
	w := s.way
	paused, whole := r.count(s, c, now)
	switch {
	case paused > 0:
		r.log.Warn("a rail fails and is left alone for a while", "local", w.Local, "remote", w.Remote, "pause", paused, "error", c.Err)
	case whole:
		r.log.Info("a rail works again", "local", w.Local, "remote", w.Remote)
	}
}

// count is done but for the log: how long the rail was paused by it, or whether it is
// whole again.
func (r *rails) count(s *slice, c transport.Completion, now time.Time) (paused time.Duration, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := s.way
	w.slices--
	w.bytes -= int64(len(s.local))
	w.full = false
	if c.Status == transport.OK {
		w.ended++
		w.last = now
		w.moved += uint64(len(s.local))
		w.speed.sample(s.queued, now.Sub(s.started))
		r.fastest = max(r.fastest, w.speed.mean)
		return 0, w.health.worked(s.started, now)
	}
	w.errors++
	if blames(s, c, now, r.cfg, w.last) && w.health.failed(r.cfg, s.started, now) {
		paused = w.health.length
	}
	return paused, false
}

// blames reports whether a failure speaks against the rail, on which something arrived at
// last: not that of a request that is wrong, of a peer that is gone, of a caller in a hurry,
// or of a deadline that passed while others of the rail were served.
func blames(s *slice, c transport.Completion, now time.Time, cfg *Config, last time.Time) bool {
	switch c.Class() {
	case errs.ClassPermanent, errs.ClassTransientPeer:
		return false
	}
	return now.Before(s.deadline) || now.Sub(s.started) >= cfg.CoolDown && last.Before(s.started)
}
