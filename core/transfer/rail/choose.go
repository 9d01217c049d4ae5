package rail

import (
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// probeEvery is how many slices go where they are expected to be fastest before one goes to the
// rail that has waited longest, so that a rail that became fast is noticed. Upstream's TENT probes
// 1 % as well.
const probeEvery = 100

const (
	// startBytes is how much a rail may have in flight before its speed is known, in bytes.
	startBytes = 4 << 20
	// ahead is the part of Config.SliceTimeout that a rail may have in flight at the speed that was
	// measured. More would not make the rail faster. It would hold up later slices, be sent again
	// when the rail fails, and delay callers who cancel.
	ahead = 2
	// portions is how many slices a rail may have in flight at the least: with one or two of them
	// it would stand idle while the last bytes of one are on their way.
	portions = 8
)

// crowded reports whether a rail has as much in flight as it can move in a while, so that n bytes
// more have to wait. A rail with nothing in flight takes anything. r.mu is held.
func (r *Set) crowded(w *rail, n int64) bool {
	switch {
	case w.bytes == 0:
		return false
	case w.speed.mean == 0:
		return w.bytes+n > startBytes
	}
	return float64(w.bytes+n)/w.speed.peak > (r.cfg.SliceTimeout / ahead).Seconds()
}

// Portion is the most bytes of a slice with which as many slices as portions fit the fastest rail.
// It is a multiple of a page, and unbounded while a rail has not been measured.
func (r *Set) Portion() int {
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

// Take counts a slice of n bytes on the rail that is expected to move it soonest, among those that
// the places of its memory prefer. It returns false when all those are full or crowded.
func (r *Set) Take(c *Claim, n int, at Places) bool {
	now := time.Now()
	size := int64(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *rail
	var soonest float64
	c.Crowded = false
	tier := ^uint8(0)
	probe := r.turn%probeEvery == probeEvery-1
	for _, t := range r.tiers.of(at, r.list) {
		if t.tier > tier {
			break
		}
		w := r.list[t.rail]
		if !w.Up || c.Tried.has(w.index) || !c.Force && !w.health.open(now, w.slices) {
			continue
		}
		tier = t.tier
		if w.full {
			continue
		}
		if r.crowded(w, size) {
			c.Crowded = true
			continue
		}
		at := float64(w.bytes+size) / w.speed.guess(r.fastest)
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
	best.bytes += size
	c.Rail, c.size, c.queued, c.Eta, c.Crowded = best, size, best.bytes, best.speed.eta(best.bytes), false
	return true
}

// Untake takes the n slices that claimOf returns off their rails, because the transport did not
// accept them. With full, it refused them for lack of space.
func (r *Set) Untake(n int, claimOf func(i int) *Claim, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		c := claimOf(i)
		c.Rail.slices--
		c.Rail.bytes -= c.size
	}
	// A rail is full until something ends on it. With nothing in flight it is the path that has no
	// space, which says nothing about the rail.
	if w := claimOf(0).Rail; full && w.slices > 0 {
		w.full = true
	}
}

// Done counts the end of a slice. now is when it was reaped.
func (r *Set) Done(c *Claim, end transport.Completion, now time.Time) {
	w := c.Rail
	paused, whole := r.count(c, end, now)
	switch {
	case paused > 0:
		r.log.Warn("a rail fails and is backed off", "local", w.Local, "remote", w.Remote, "pause", paused, "error", end.Err)
	case whole:
		r.log.Info("a rail works again", "local", w.Local, "remote", w.Remote)
	}
}

// count is done without the log. It returns how long this end paused the rail, and whether the rail
// recovered completely.
func (r *Set) count(c *Claim, end transport.Completion, now time.Time) (paused time.Duration, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := c.Rail
	w.slices--
	w.bytes -= c.size
	w.full = false
	if end.Status == transport.OK {
		w.ended++
		w.last = now
		w.moved += uint64(c.size)
		w.speed.sample(c.queued, now.Sub(c.Started))
		r.fastest = max(r.fastest, w.speed.mean)
		return 0, w.health.worked(c.Started, now)
	}
	w.errors++
	if r.blames(c, end, now) && w.health.failed(r.cfg, c.Started, now) {
		paused = w.health.length
	}
	return paused, false
}

// blames reports whether a failure counts against the rail. These do not: the failure of a wrong
// request, of a peer that is gone, of a caller with a short deadline, and a deadline that passed
// while other slices of the rail arrived.
func (r *Set) blames(c *Claim, end transport.Completion, now time.Time) bool {
	switch end.Class() {
	case errs.ClassPermanent, errs.ClassTransientPeer:
		return false
	}
	return now.Before(c.Deadline) || now.Sub(c.Started) >= r.cfg.CoolDown && c.Rail.last.Before(c.Started)
}

// verdict is what a path can do for a slice now.
type verdict uint8

// The verdicts.
const (
	Ready  verdict = iota // a rail can take it
	Busy                  // a rail can take it once something ended there
	Paused                // only paused or returning rails are left
	Down                  // all rails are down
	None                  // the slice was tried on all rails that are up
)

// Look tells what the path can do for a slice that failed on the tried rails.
func (r *Set) Look(tried *Bitset) verdict {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v, up := None, false
	for _, w := range r.list {
		if !w.Up {
			continue
		}
		up = true
		switch {
		case tried.has(w.index):
		case !w.health.open(now, w.slices):
			v = min(v, Paused)
		case w.full:
			v = min(v, Busy)
		default:
			return Ready
		}
	}
	if !up {
		return Down
	}
	return v
}

// Exclude notes that a slice failed on its rail, or with its local device, and reports whether
// another rail of the path may do better.
func (r *Set) Exclude(c *Claim, class errs.Class) bool {
	if c.Rail == nil {
		return false
	}
	if class != errs.ClassPermanent {
		r.Refresh()
	}
	if r.railed == nil {
		return false
	}
	r.mu.Lock()
	for _, w := range r.list {
		if w == c.Rail || class == errs.ClassLocalDevice && w.Local == c.Rail.Local {
			c.Tried.add(w.index)
		}
	}
	r.mu.Unlock()
	v := r.Look(&c.Tried)
	return v == Ready || v == Busy
}
