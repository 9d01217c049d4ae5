package segments

import (
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

// How weights move.
const (
	// SilentAfter is the time without a sign of life of the owner, two missed pings and a
	// half, from which a segment's weight is 0.
	SilentAfter = 2500 * time.Millisecond

	// Bad news of transfers: each tenth of failed transfers halves the weight, to
	// floorWeight at most; a slow node has slowWeight at most. Without more of it the
	// weight comes back along a straight line that goes from 0 to 1 in recoverIn.
	failureStep = 0.1
	floorWeight = 0.01
	slowWeight  = 0.25
	recoverIn   = 30 * time.Second

	// A segment whose owner was silent, or that joins a pool of which more than
	// usedShare is in use, begins at rampWeight and has its full weight after rampIn: an
	// empty node would else get every new object at once.
	rampWeight = 0.1
	rampIn     = 10 * time.Second
	usedShare  = 0.05
)

// Health turns what clients see of each other's nodes into the weights of segments. Time
// comes in with the calls, which must not go back by much. Safe for concurrent use.
type Health struct {
	registry *Registry
	clients  *Clients

	mu    sync.Mutex
	peers map[string]*peer // by endpoint, of mounted segments only
}

// NewHealth returns a Health that sets the weights of the segments of r, whose owners are
// seen in c.
func NewHealth(r *Registry, c *Clients) *Health {
	return &Health{registry: r, clients: c, peers: map[string]*peer{}}
}

// Mount sets the weight that a prepared segment begins with. Call it before Registry.Add.
func (h *Health) Mount(s *Segment, now lease.Instant) {
	v := h.registry.View()
	if float64(v.Used()) <= usedShare*float64(v.Capacity) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.ramp = now
	s.setWeight(rampWeight)
}

// Report takes in what a client saw of others since its last report. Weights that fall do
// so at once. Reports on endpoints without a segment are left out.
func (h *Health) Report(from model.ClientID, report model.PingReport, now lease.Instant) {
	if len(report.Peers) == 0 {
		return
	}
	v := h.registry.View()
	h.mu.Lock()
	defer h.mu.Unlock()
	var worse []*Segment
	for _, r := range report.Peers {
		segs := v.At(r.Endpoint)
		if len(segs) == 0 {
			continue
		}
		p := h.peers[r.Endpoint]
		if p == nil {
			p = newPeer()
			h.peers[r.Endpoint] = p
		}
		p.add(from, r, now)
		if r.Failed > 0 {
			p.cut(failureWeight(p.failed(now)), now)
			worse = append(worse, segs...)
		}
	}
	if len(worse) > 0 {
		h.weigh(worse, now)
	}
}

// Tick brings all weights up to date: silence, slowness, recovery. The master calls it a
// few times a second.
func (h *Health) Tick(now lease.Instant) {
	v := h.registry.View()
	h.mu.Lock()
	defer h.mu.Unlock()
	for endpoint, p := range h.peers {
		p.expire(now)
		if len(v.At(endpoint)) == 0 || len(p.tallies) == 0 && p.weight(now) == 1 {
			delete(h.peers, endpoint)
		}
	}
	h.findSlow(now)
	for _, s := range v.All {
		seen, known := h.clients.Seen(s.Client)
		silent := !known || now.Sub(seen) >= SilentAfter
		if s.silent && !silent {
			s.ramp = now
		}
		s.silent = silent
	}
	h.weigh(v.All, now)
}

// findSlow cuts the weight of the nodes that are much slower than the median. With fewer
// than three that moved enough there is none to compare with.
func (h *Health) findSlow(now lease.Instant) {
	type speed struct {
		peer  *peer
		value float64
	}
	var speeds []speed
	for _, p := range h.peers {
		if v, ok := p.speed(now); ok {
			speeds = append(speeds, speed{p, v})
		}
	}
	if len(speeds) < 3 {
		return
	}
	slices.SortFunc(speeds, func(a, b speed) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		default:
			return 0
		}
	})
	median := speeds[len(speeds)/2].value
	for _, s := range speeds {
		if s.value < median*slowWeight {
			s.peer.cut(slowWeight, now)
		}
	}
}

// weigh sets the weights of segments. The caller holds h.mu.
func (h *Health) weigh(segs []*Segment, now lease.Instant) {
	for _, s := range segs {
		s.setWeight(h.weightOf(s, now))
	}
	h.registry.judge()
}

func (h *Health) weightOf(s *Segment, now lease.Instant) float64 {
	if s.silent || s.Ledger.Behind() {
		return 0
	}
	w := 1.0
	if s.ramp != 0 {
		if w = rampWeight + (1-rampWeight)*share(now.Sub(s.ramp), rampIn); w >= 1 {
			s.ramp = 0
		}
	}
	if p := h.peers[s.Endpoint]; p != nil {
		w *= p.weight(now)
	}
	return max(w, floorWeight)
}

// share returns how much of whole has passed, from 0 to 1.
func share(part, whole time.Duration) float64 {
	return min(max(float64(part)/float64(whole), 0), 1)
}
