package transfer

import (
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// refresh asks the path for its rails again.
func (r *rails) refresh() {
	if r.railed == nil && r.whole == nil {
		return
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.railed == nil {
		r.turnTo(r.whole.Up())
		return
	}
	now := r.railed.Rails()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.list {
		if !slices.ContainsFunc(now, func(n transport.Rail) bool { return n.ID == w.ID }) {
			w.Up = false
		}
	}
	for _, n := range now {
		r.fastest = max(r.fastest, float64(n.Speed)/8)
		i := slices.IndexFunc(r.list, func(w *rail) bool { return w.ID == n.ID })
		if i < 0 {
			if len(r.list) == maxRails {
				continue
			}
			r.list = append(r.list, &rail{Rail: n, index: len(r.list), speed: speed{nominal: float64(n.Speed) / 8}})
			r.tiers = nil
			continue
		}
		w := r.list[i]
		if n.Up && !w.Up {
			w.health.back(time.Now())
		}
		w.Up, w.Speed, w.speed.nominal = n.Up, n.Speed, float64(n.Speed)/8
	}
}

// turnTo notes whether a link without rails is up.
func (r *rails) turnTo(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.list[0]
	if up && !w.Up {
		w.health.back(time.Now())
	}
	w.Up = up
}

// ailing reports whether a rail was paused or down, and is not whole again.
func (r *rails) ailing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(w *rail) bool { return w.health.share > 0 })
}

// drained forgets the back-pressure: what was under way ended, or time passed.
func (r *rails) drained() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.list {
		w.full = false
	}
}

// spread is over how many rails a request is worth spreading.
func (r *rails) spread() int {
	if r.railed == nil {
		return 1
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var local, remote []string
	for _, w := range r.list {
		if w.Up && w.health.open(now, 0) {
			local, remote = add(local, w.Local), add(remote, w.Remote)
		}
	}
	return max(len(local), len(remote))
}

func add(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// names lists the rails for an error.
func (r *rails) names() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.railed == nil {
		return "the path as a whole"
	}
	var b strings.Builder
	for i, w := range r.list {
		if i == 8 {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(w.Local + "-" + w.Remote)
	}
	return b.String()
}
