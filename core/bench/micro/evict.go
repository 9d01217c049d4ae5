package micro

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	batch         = 256 // objects of one call, as the master makes them
	rankedObjects = 100_000
)

// Evict measures an eviction policy that holds 100,000 objects, in calls of 256, per
// object. cfg is the policy's configuration, nil for its default.
func Evict(f evict.Factory, cfg plugin.Config) Suite {
	return Suite{Name: f.Manifest().String(), run: func(ctx context.Context, m *meter) error {
		if cfg == nil {
			cfg = f.DefaultConfig()
		}
		p, err := f.New(cfg)
		if err != nil {
			return err
		}
		return m.started(ctx, p, func() error { return m.evict(ctx, &ranking{ctx: ctx, policy: p}) })
	}}
}

func (m *meter) evict(ctx context.Context, r *ranking) error {
	for r.next < rankedObjects {
		if err := r.insert(); err != nil {
			return err
		}
	}
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"access", r.access},
		{"propose and spare", func() error { return r.propose(false) }},
		{"insert, propose and evict", func() error {
			if err := r.insert(); err != nil {
				return err
			}
			return r.propose(true)
		}},
	} {
		if _, err := m.measure(ctx, op.name, 0, nil, inBatches(op.do)); err != nil {
			return err
		}
	}
	return nil
}

// inBatches makes single objects out of calls that work on a batch.
func inBatches(do func() error) func(int) error {
	return func(n int) error {
		for done := 0; done < n; done += batch {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
}

// ranking drives a policy. Every object has size 1.
type ranking struct {
	ctx      context.Context
	policy   evict.Policy
	next     uint64 // highest ID in use
	events   [batch]evict.Event
	victims  [batch]evict.Candidate
	verdicts [batch]evict.Verdict
}

func (r *ranking) insert() error {
	for i := range r.events {
		r.next++
		r.events[i] = evict.Event{Op: evict.Insert, ID: evict.ID(r.next), Size: 1}
	}
	return r.policy.Record(r.ctx, r.events[:])
}

// access looks at objects at random among the latest.
func (r *ranking) access() error {
	for i := range r.events {
		r.events[i] = evict.Event{Op: evict.Access, ID: evict.ID(r.next - rand.Uint64N(rankedObjects))}
	}
	return r.policy.Record(r.ctx, r.events[:])
}

func (r *ranking) propose(gone bool) error {
	got, err := r.policy.Propose(r.ctx, r.victims[:0], batch)
	if err != nil {
		return err
	}
	if len(got) != batch {
		return fmt.Errorf("the policy proposed %d objects of size 1 for %d bytes, with %d ranked", len(got), batch, rankedObjects)
	}
	for i, c := range got {
		r.verdicts[i] = evict.Verdict{ID: c.ID, Evicted: gone}
	}
	return r.policy.Resolve(r.ctx, r.verdicts[:])
}
