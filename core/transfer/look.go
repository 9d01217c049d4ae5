package transfer

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verdict is what a path can do for a slice now.
type verdict uint8

const (
	railReady  verdict = iota // a rail can take it
	railBusy                  // a rail can take it once something ended there
	railPaused                // only paused or returning rails are left
	railDown                  // all rails are down
	railNone                  // the slice was tried on all rails that are up
)

// look tells what the path can do for a slice that failed on the tried rails.
func (r *railSet) look(tried *bitset) verdict {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v, up := railNone, false
	for _, w := range r.list {
		if !w.Up {
			continue
		}
		up = true
		switch {
		case tried.has(w.index):
		case !w.health.open(now, w.slices):
			v = min(v, railPaused)
		case w.full:
			v = min(v, railBusy)
		default:
			return railReady
		}
	}
	if !up {
		return railDown
	}
	return v
}

// exclude notes that a slice failed on its rail, or with its local device, and reports
// whether another rail of the path may do better.
func (r *railSet) exclude(c *claim, class errs.Class) bool {
	if c.rail == nil {
		return false
	}
	if class != errs.ClassPermanent {
		r.refresh()
	}
	if r.railed == nil {
		return false
	}
	r.mu.Lock()
	for _, w := range r.list {
		if w == c.rail || class == errs.ClassLocalDevice && w.Local == c.rail.Local {
			c.tried.add(w.index)
		}
	}
	r.mu.Unlock()
	v := r.look(&c.tried)
	return v == railReady || v == railBusy
}
