package session

import (
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// maxPeersKnown bounds the endpoints that a session remembers.
	maxPeersKnown = 4096
	// minShun and maxShun bound how long clients avoid an endpoint that failed. The time doubles with
	// every further failure.
	minShun = 500 * time.Millisecond
	maxShun = 30 * time.Second
	// returning is the time until an endpoint gets its full share of reads back, in multiples of the
	// time that it was avoided.
	returning = 4
	// patience is how long reads without another copy wait for an endpoint that has just begun to refuse
	// them. A transport that its host starts again is back by then.
	patience = time.Second
)

// peerBook counts the transfers with other nodes for the next report, and knows which nodes to avoid
// for a while. Safe for concurrent use.
type peerBook struct {
	mu       sync.Mutex
	limit    int
	seen     map[string]*peerSeen
	fresh    int  // entries with something to report
	notified bool // the session knows that there is something to report
}

type peerSeen struct {
	report  model.PeerReport
	dirty   bool
	active  int       // calls in flight
	since   time.Time // busy since, when active
	last    time.Time // when the last transfer ended
	fails   int       // failures since it was last fully trusted
	first   time.Time // when the first of them was noted, if that was a refusal
	failed  time.Time // when the last failure was noted
	suspect bool      // nothing succeeded since then
	shunned time.Time // until when clients avoid it
	shun    time.Duration
}

// tally is the outcome of one call's transfers with one endpoint.
type tally struct {
	endpoint     string
	began        time.Time
	done, failed uint32
	stalled      bool // a read left it for another copy
	silent       bool // nothing answered
	bytes        uint64
	last         time.Time
}

func newPeerBook(limit int) *peerBook {
	return &peerBook{limit: limit, seen: map[string]*peerSeen{}}
}

// begin records that a call has transfers in flight with an endpoint.
func (b *peerBook) begin(endpoint string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.seen[endpoint]
	if p == nil {
		if len(b.seen) >= b.limit && !b.forget(now) {
			return
		}
		p = &peerSeen{report: model.PeerReport{Endpoint: endpoint}}
		b.seen[endpoint] = p
	}
	if p.active == 0 {
		p.since = now
	}
	p.active++
}

// end records the outcome of transfers that begin recorded.
func (b *peerBook) end(t *tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.seen[t.endpoint]
	if p == nil || p.active == 0 {
		return
	}
	p.report.Done += t.done
	p.report.Failed += t.failed
	p.report.Bytes += t.bytes
	if t.last.After(p.last) {
		p.last = t.last
	}
	if p.active--; p.active == 0 && p.last.After(p.since) {
		p.report.Busy += p.last.Sub(p.since)
	}
	if t.done+t.failed > 0 && !p.dirty {
		p.dirty = true
		b.fresh++
	}
	if t.done > 0 {
		p.suspect = false
	}
	switch {
	case t.failed > 0 || t.stalled:
		p.suspect = true
		if t.began.Before(p.failed) {
			return // It was in flight when another call failed: what happened is one failure.
		}
		if p.fails == 1 && t.began.Sub(p.first) < patience {
			return // It is still the same failure, and may be over in a moment.
		}
		if p.fails++; p.fails == 1 && !t.silent && !t.stalled {
			p.first = t.last
		}
		p.failed = t.last
		p.shun = min(minShun<<min(p.fails-1, 10), maxShun)
		p.shunned = t.last.Add(p.shun)
	case t.done > 0 && p.fails > 0 && p.trust(t.last) == 1:
		p.fails = 0
	}
}

// trust is the share of reads that an endpoint gets compared to a healthy one, 0 to 1.
func (b *peerBook) trust(endpoint string, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.seen[endpoint]; p != nil {
		return p.trust(now)
	}
	return 1
}

func (p *peerSeen) trust(now time.Time) float64 {
	switch {
	case p.fails == 0:
		return 1
	case p.suspect && p.active > 0: // One call finds out whether the endpoint is back.
		return 0
	}
	return min(max(float64(now.Sub(p.shunned))/float64(returning*p.shun), 0), 1)
}

// worthWaiting reports whether an endpoint worked until a moment ago, and may be back in another one. It is no longer once
// patience is over, nor for an endpoint that fails again before it is fully trusted: what is dead costs each client one wait.
func (b *peerBook) worthWaiting(endpoint string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.seen[endpoint]
	return p != nil && p.fails > 0 && now.Sub(p.first) < patience
}

// pending reports whether there is something to report.
func (b *peerBook) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fresh > 0
}

// first returns true once after each take, as soon as there is something to report.
func (b *peerBook) first() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.fresh > 0 && !b.notified
	b.notified = b.notified || first
	return first
}

// take returns the reports since the last call.
func (b *peerBook) take(now time.Time) []model.PeerReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notified = false
	if b.fresh == 0 {
		return nil
	}
	out := make([]model.PeerReport, 0, b.fresh)
	for name, p := range b.seen {
		if !p.dirty {
			continue
		}
		if p.active > 0 {
			p.report.Busy += max(now.Sub(p.since), 0)
			p.since = now
		}
		out = append(out, p.report)
		p.report, p.dirty = model.PeerReport{Endpoint: name}, false
	}
	b.fresh = 0
	return out
}

// forget removes an entry to make space for another one. The caller holds mu.
func (b *peerBook) forget(now time.Time) bool {
	for name, p := range b.seen {
		if p.active == 0 && !p.dirty && p.trust(now) == 1 {
			delete(b.seen, name)
			return true
		}
	}
	return false
}
