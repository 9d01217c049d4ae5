package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// maxPeersKnown bounds the endpoints that a session remembers something of.
	maxPeersKnown = 4096
	// blameAfter is the least time that a transfer must have had before its running out of
	// time is the peer's fault: a caller in a hurry says nothing about its peer.
	blameAfter = time.Second
	// minShun and maxShun bound how long an endpoint that failed is avoided; it doubles
	// with every further failure.
	minShun = 500 * time.Millisecond
	maxShun = 30 * time.Second
	// returning is how many times as long as it was avoided an endpoint takes to get its
	// full share of reads back.
	returning = 4
)

// peerBook is what a process saw of other nodes: counts for the next report, and which node is to
// be avoided for a while. Safe for concurrent use.
type peerBook struct {
	mu    sync.Mutex
	limit int
	seen  map[string]*peerSeen
	fresh int  // entries with something to report
	told  bool // the session knows that there is something to report
}

type peerSeen struct {
	report  model.PeerReport
	dirty   bool
	active  int       // calls in flight
	since   time.Time // busy since, when active
	last    time.Time // when the last transfer ended
	fails   int       // failures since the last time it was trusted again
	shunned time.Time // until when it is avoided
	shun    time.Duration
}

func newPeerBook(limit int) *peerBook {
	return &peerBook{limit: limit, seen: map[string]*peerSeen{}}
}

// begin notes that a call has transfers in flight with an endpoint.
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

// tally is the outcome of one call's transfers with one endpoint.
type tally struct {
	endpoint     string
	done, failed uint32
	bytes        uint64
	last         time.Time
}

// end notes the outcome of what begin noted.
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
	switch {
	case t.failed > 0:
		p.fails++
		p.shun = min(minShun<<min(p.fails-1, 10), maxShun)
		p.shunned = t.last.Add(p.shun)
	case t.done > 0 && p.fails > 0 && b.trustOf(p, t.last) == 1:
		p.fails = 0
	}
}

// trust is the share of reads that an endpoint gets beside a healthy one, 0 to 1.
func (b *peerBook) trust(endpoint string, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.seen[endpoint]
	if p == nil {
		return 1
	}
	return b.trustOf(p, now)
}

func (b *peerBook) trustOf(p *peerSeen, now time.Time) float64 {
	if p.fails == 0 {
		return 1
	}
	back := now.Sub(p.shunned)
	return min(max(float64(back)/float64(returning*p.shun), 0), 1)
}

// pending reports whether there is something to report.
func (b *peerBook) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fresh > 0
}

// first reports, once after each take, that there is something to report.
func (b *peerBook) first() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.fresh > 0 && !b.told
	b.told = b.told || first
	return first
}

// take returns what was seen since the last time.
func (b *peerBook) take(now time.Time) []model.PeerReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = false
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

// forget makes room for another endpoint. The caller holds b.mu.
func (b *peerBook) forget(now time.Time) bool {
	for name, p := range b.seen {
		if p.active == 0 && !p.dirty && b.trustOf(p, now) == 1 {
			delete(b.seen, name)
			return true
		}
	}
	return false
}

// blamed reports whether a failed transfer is the peer's fault. asked is when it began.
func blamed(ctx context.Context, req *transfer.Request, res *transfer.Result, asked time.Time) bool {
	err := res.Err
	limit, bounded := ctx.Deadline()
	switch {
	case bounded && !time.Now().Before(limit): // The context may not know yet.
		return false
	case ctx.Err() != nil || errs.ClassOf(err) != errs.ClassTransientPeer && !errors.Is(err, transfer.ErrQuarantined):
		return false
	case !req.Deadline.IsZero() && !res.Done.Before(req.Deadline) || errors.Is(err, context.DeadlineExceeded):
		return res.Done.Sub(asked) >= blameAfter
	}
	for own := new(errs.Error); errors.As(err, &own); err = own.Err {
		if own.Class == errs.ClassLocalDevice {
			return false // The engine found no way to the peer because of this machine.
		}
	}
	return true
}
