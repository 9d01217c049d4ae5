package lru

import (
	"context"
	"math"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// maxObjects is what entry indices can number. The master runs out of memory for its own
// object table long before.
const maxObjects = math.MaxUint32 - 1

// policy implements evict.Policy. Ranked objects form the recency ring; proposed ones are
// in the table only. A batch holds the lock once.
type policy struct {
	mu       sync.Mutex
	entries  entries
	table    table
	objects  uint64
	bytes    uint64 // modulo 2^64, so that removing undoes inserting even past the end
	proposed uint64
}

var _ evict.Policy = (*policy)(nil)

func newPolicy() *policy { return &policy{entries: newEntries()} }

// Start implements plugin.Component; there is nothing to acquire.
func (p *policy) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component; the memory goes with the policy.
func (p *policy) Stop(context.Context) error { return nil }

// Record implements evict.Policy.
func (p *policy) Record(_ context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range events {
		ev := &events[i]
		if ev.ID == 0 {
			continue
		}
		at := p.table.find(&p.entries, ev.ID)
		switch {
		case ev.Op == evict.Insert && at == 0:
			p.insert(ev.ID, ev.Size)
		case at == 0:
		case ev.Op == evict.Insert, ev.Op == evict.Access:
			p.touch(at)
		case ev.Op == evict.Remove:
			p.forget(at)
		}
	}
	return nil
}

// Propose implements evict.Policy.
func (p *policy) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for found := uint64(0); found < bytes && len(dst) < cap(dst); {
		at := p.entries.at(0).next
		if at == 0 {
			break
		}
		e := p.entries.at(at)
		p.entries.unlink(at)
		e.proposed = true
		p.proposed++
		dst = append(dst, evict.Candidate{ID: e.id, Size: e.size})
		if found += e.size; found < e.size {
			break // past 2^64 bytes, more than anyone can want
		}
	}
	return dst, nil
}

// Resolve implements evict.Policy. Sparing puts an object at the recent end, which is
// also where an access made while it was proposed would have put it.
func (p *policy) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		at := p.table.find(&p.entries, v.ID)
		if at == 0 {
			continue
		}
		e := p.entries.at(at)
		switch {
		case !e.proposed:
		case v.Evicted:
			p.forget(at)
		default:
			e.proposed = false
			p.proposed--
			p.entries.pushRecent(at)
		}
	}
	return nil
}

// Stats implements evict.Policy.
func (p *policy) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return evict.Stats{Objects: p.objects, Bytes: p.bytes, Proposed: p.proposed}, nil
}

func (p *policy) insert(id evict.ID, size uint64) {
	if p.objects == maxObjects {
		return
	}
	at := p.entries.take()
	e := p.entries.at(at)
	e.id, e.size, e.proposed = id, size, false
	p.entries.pushRecent(at)
	p.table.add(id, at)
	p.objects++
	p.bytes += size
}

// touch makes a ranked object the most recent. A proposed one stays where it is.
func (p *policy) touch(at uint32) {
	if !p.entries.at(at).proposed {
		p.entries.unlink(at)
		p.entries.pushRecent(at)
	}
}

// forget makes a ranked or proposed object unknown.
func (p *policy) forget(at uint32) {
	e := p.entries.at(at)
	if e.proposed {
		p.proposed--
	} else {
		p.entries.unlink(at)
	}
	p.objects--
	p.bytes -= e.size
	p.table.remove(e.id, at)
	p.entries.give(at)
}
