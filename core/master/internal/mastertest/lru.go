package mastertest

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// LRU is a least-recently-used policy that follows the contract to the letter.
type LRU struct {
	RecordCalls, ProposeCalls, ResolveCalls atomic.Int64
	Down                                    atomic.Bool
	// LoseReply lets Propose work and then fail, like a connection that breaks.
	LoseReply atomic.Bool

	mu    sync.Mutex
	order list.List // *lruItem, least recent first
	known map[evict.ID]*lruItem
}

type lruItem struct {
	id      evict.ID
	size    uint64
	at      *list.Element // nil while proposed
	touched bool
}

// NewLRU returns an empty policy.
func NewLRU() *LRU { return &LRU{known: map[evict.ID]*lruItem{}} }

// Start implements plugin.Component.
func (l *LRU) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component.
func (l *LRU) Stop(context.Context) error { return nil }

// Restart forgets everything.
func (l *LRU) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order.Init()
	l.known = map[evict.ID]*lruItem{}
}

// Record implements evict.Policy.
func (l *LRU) Record(_ context.Context, events []evict.Event) error {
	l.RecordCalls.Add(1)
	if l.Down.Load() {
		return ErrDown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		it := l.known[e.ID]
		switch {
		case e.Op == evict.Remove && it != nil:
			if it.at != nil {
				l.order.Remove(it.at)
			}
			delete(l.known, e.ID)
		case e.Op == evict.Insert && it == nil:
			it = &lruItem{id: e.ID, size: e.Size}
			it.at = l.order.PushBack(it)
			l.known[e.ID] = it
		case it != nil && it.at != nil:
			l.order.MoveToBack(it.at)
		case it != nil:
			it.touched = true
		}
	}
	return nil
}

// Propose implements evict.Policy.
func (l *LRU) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	l.ProposeCalls.Add(1)
	if l.Down.Load() {
		return dst, ErrDown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for sum := uint64(0); sum < bytes && len(dst) < cap(dst) && l.order.Len() > 0; {
		it := l.order.Remove(l.order.Front()).(*lruItem)
		it.at = nil
		sum += it.size
		dst = append(dst, evict.Candidate{ID: it.id, Size: it.size})
	}
	if l.LoseReply.Load() {
		return nil, ErrDown
	}
	return dst, nil
}

// Resolve implements evict.Policy.
func (l *LRU) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	l.ResolveCalls.Add(1)
	if l.Down.Load() {
		return ErrDown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range verdicts {
		it := l.known[v.ID]
		if it == nil || it.at != nil {
			continue
		}
		if v.Evicted {
			delete(l.known, v.ID)
		} else {
			it.at, it.touched = l.order.PushBack(it), false
		}
	}
	return nil
}

// Stats implements evict.Policy.
func (l *LRU) Stats(context.Context) (evict.Stats, error) {
	if l.Down.Load() {
		return evict.Stats{}, ErrDown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st := evict.Stats{Objects: uint64(len(l.known))}
	for _, it := range l.known {
		st.Bytes += it.size
		if it.at == nil {
			st.Proposed++
		}
	}
	return st, nil
}
