package rail

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// outage is implemented by a path that can be down as a whole and recovers by itself, because its
// transport runs in a process that was restarted.
type outage interface {
	Up() bool
}

// Set is the rails of one path. Safe for concurrent use; calls are short.
type Set struct {
	cfg    *settings.Config
	railed transport.Railed // nil for a path without rails
	whole  outage           // a path without rails that can be down as a whole, else nil
	log    *slog.Logger

	asking sync.Mutex // held to ask the path, so that its answers are applied in their order

	mu    sync.Mutex
	list  []*rail
	tiers tiers
	turn  uint64
	// fastest is the highest speed that was measured or promised, in bytes per second.
	fastest float64
}

// NewSet returns the rails of a path; here is the topology of this machine.
func NewSet(cfg *settings.Config, path transport.Path, here matrix.Matrix, log *slog.Logger) *Set {
	r := &Set{cfg: cfg, tiers: tiers{affinity: cfg.PeerAffinity, here: here}, log: log}
	if railed, ok := transport.As[transport.Railed](path); ok {
		r.railed = railed
		r.Refresh()
		return r
	}
	r.list = []*rail{{Rail: transport.Rail{Up: true}}}
	if whole, ok := transport.As[outage](path); ok {
		r.whole = whole
		r.Refresh()
	}
	return r
}

// Refresh asks the path for its rails again.
func (r *Set) Refresh() {
	if r.railed == nil && r.whole == nil {
		return
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if r.railed == nil {
		r.setUp(r.whole.Up())
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
			r.tiers.forget()
			continue
		}
		w := r.list[i]
		if n.Up && !w.Up {
			w.health.back(time.Now())
		}
		w.Up, w.Speed, w.speed.nominal = n.Up, n.Speed, float64(n.Speed)/8
	}
}

// setUp notes whether a path without rails is up.
func (r *Set) setUp(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.list[0]
	if up && !w.Up {
		w.health.back(time.Now())
	}
	w.Up = up
}

// SetTopology notes the topology of the peer.
func (r *Set) SetTopology(there matrix.Matrix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tiers.there = there
	r.tiers.forget()
}

// Ailing reports whether a rail was paused or down and has not recovered completely.
func (r *Set) Ailing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(w *rail) bool { return w.health.share > 0 })
}

// Drained forgets the back-pressure, because slices ended or time passed.
func (r *Set) Drained() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.list {
		w.full = false
	}
}

// Spread is over how many rails a request is worth spreading.
func (r *Set) Spread() int {
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

// Names lists the rails for an error.
func (r *Set) Names() string {
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

// Stats is a rail of a path, with its activity since the path was opened.
type Stats struct {
	// ID is that of the transport, Local and Remote are the devices.
	ID            uint16
	Local, Remote string
	// State is up, down (says the transport), paused (after errors), or returning.
	State string
	// Bytes and Slices arrived; Errors counts the slices that failed, and Pauses how often the rail
	// was paused.
	Bytes, Slices, Errors, Pauses uint64
	// Inflight is the number of bytes in flight.
	Inflight uint64
	// Speed is the measured speed in bytes per second, 0 before it is known.
	Speed float64
}

// Stats returns the rails with their activity.
func (r *Set) Stats() []Stats {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Stats, 0, len(r.list))
	for _, w := range r.list {
		s := Stats{
			ID: uint16(w.ID), Local: w.Local, Remote: w.Remote, State: "down", Bytes: w.moved, Slices: w.ended, Errors: w.errors,
			Pauses: w.health.pauses, Inflight: uint64(w.bytes), Speed: w.speed.mean,
		}
		if w.Up {
			s.State = w.health.state(now)
		}
		out = append(out, s)
	}
	return out
}
