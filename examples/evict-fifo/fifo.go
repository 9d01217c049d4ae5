// Package fifo is the eviction policy evict/fifo: it evicts the object that was written first,
// however often it is read. It is the example of docs/plugins/writing.md.
package fifo

import (
	"container/list"
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// entry is a known object. A ranked one is in the queue, a proposed one is not.
type entry struct {
	size uint64
	at   *list.Element // nil while it is proposed
}

// policy implements evict.Policy. One lock, held for one batch.
type policy struct {
	mu       sync.Mutex
	queue    list.List // of evict.ID, the next victim in front
	known    map[evict.ID]*entry
	bytes    uint64
	proposed uint64
}

func newPolicy(cfg *Config) *policy {
	return &policy{known: make(map[evict.ID]*entry, cfg.ExpectedObjects)}
}

// Start implements plugin.Component; there is nothing to acquire.
func (p *policy) Start(_ context.Context, host plugin.Host) error {
	host.Logger().Info("first in, first out")
	return nil
}

// Stop implements plugin.Component.
func (p *policy) Stop(context.Context) error { return nil }

// Record implements evict.Policy. It ignores accesses, and events that this version of the
// contract does not define.
func (p *policy) Record(_ context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ev := range events {
		e := p.known[ev.ID]
		switch {
		case ev.Op == evict.Insert && e == nil && ev.ID != 0:
			p.known[ev.ID] = &entry{size: ev.Size, at: p.queue.PushBack(ev.ID)}
			p.bytes += ev.Size
		case ev.Op == evict.Remove && e != nil:
			p.forget(ev.ID, e)
		}
	}
	return nil
}

// Propose implements evict.Policy.
func (p *policy) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for found := uint64(0); found < bytes && len(dst) < cap(dst) && p.queue.Len() > 0; {
		id, _ := p.queue.Remove(p.queue.Front()).(evict.ID)
		e := p.known[id]
		e.at = nil
		p.proposed++
		dst = append(dst, evict.Candidate{ID: id, Size: e.size})
		if found += e.size; found < e.size {
			break // The sum exceeds 2^64 bytes.
		}
	}
	return dst, nil
}

// Resolve implements evict.Policy. A retained object goes to the end of the queue.
func (p *policy) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		e := p.known[v.ID]
		switch {
		case e == nil || e.at != nil: // not proposed
		case v.Evicted:
			p.forget(v.ID, e)
		default:
			p.proposed--
			e.at = p.queue.PushBack(v.ID)
		}
	}
	return nil
}

// Stats implements evict.Policy.
func (p *policy) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return evict.Stats{Objects: uint64(len(p.known)), Bytes: p.bytes, Proposed: p.proposed}, nil
}

func (p *policy) forget(id evict.ID, e *entry) {
	if e.at != nil {
		p.queue.Remove(e.at)
	} else {
		p.proposed--
	}
	p.bytes -= e.size
	delete(p.known, id)
}
