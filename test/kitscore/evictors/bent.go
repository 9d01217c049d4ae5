package evictors

import (
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// bent is a policy with some of its methods changed. Each function that is nil changes nothing.
type bent struct {
	evict.Policy
	// record and resolve change a batch before the policy gets it.
	record  func([]evict.Event) []evict.Event
	resolve func([]evict.Verdict) []evict.Verdict
	// propose replaces Propose; it gets that of the policy.
	propose func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error)
	stats   func(*evict.Stats)
	mu      sync.Mutex // of record and resolve, and of what bugs remember
}

type proposer func(dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error)

// Record implements evict.Policy.
func (b *bent) Record(ctx context.Context, events []evict.Event) error {
	if b.record != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		events = b.record(slices.Clone(events))
	}
	return b.Policy.Record(ctx, events)
}

// Propose implements evict.Policy.
func (b *bent) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	ask := func(dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
		return b.Policy.Propose(ctx, dst, bytes)
	}
	if b.propose == nil {
		return ask(dst, bytes)
	}
	return b.propose(ask, dst, bytes)
}

// Resolve implements evict.Policy.
func (b *bent) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	if b.resolve != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		verdicts = b.resolve(slices.Clone(verdicts))
	}
	return b.Policy.Resolve(ctx, verdicts)
}

// Stats implements evict.Policy.
func (b *bent) Stats(ctx context.Context) (evict.Stats, error) {
	st, err := b.Policy.Stats(ctx)
	if b.stats != nil {
		b.stats(&st)
	}
	return st, err
}

// renamed lets the policy know objects by other IDs. Candidates get the ID that was named last.
func (b *bent) renamed(name func(evict.ID) evict.ID) {
	was := map[evict.ID]evict.ID{}
	b.record = func(events []evict.Event) []evict.Event {
		for i, e := range events {
			events[i].ID = name(e.ID)
			was[events[i].ID] = e.ID
		}
		return events
	}
	b.resolve = func(verdicts []evict.Verdict) []evict.Verdict {
		for i, v := range verdicts {
			verdicts[i].ID = name(v.ID)
		}
		return verdicts
	}
	b.candidates(func(c *evict.Candidate) {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.ID = was[c.ID]
	})
}

// candidates changes what is proposed.
func (b *bent) candidates(change func(*evict.Candidate)) {
	b.propose = func(ask proposer, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
		had := len(dst)
		dst, err := ask(dst, bytes)
		for i := range dst[min(had, len(dst)):] {
			change(&dst[had+i])
		}
		return dst, err
	}
}
