package rail

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

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

// Exclude notes that a slice failed on its rail, or with its local device, and reports
// whether another rail of the path may do better.
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
