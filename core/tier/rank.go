package tier

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// policyTimeout bounds one call of the policy.
	policyTimeout = 5 * time.Second
	// evictBatch is the most copies that are evicted together.
	evictBatch = 1024
	// maxIdleRounds is how often a policy may propose only copies that cannot go.
	maxIdleRounds = 4
)

// Ranking evicts the copies of a Disk in the order of a policy. Its methods run one at a time.
type Ranking struct {
	disk   *Disk
	policy evict.Policy
	seed   maphash.Seed
}

// Rank makes a policy rank the copies of a disk, beginning with those that are there.
func (d *Disk) Rank(p evict.Policy) *Ranking {
	r := &Ranking{disk: d, policy: p, seed: maphash.MakeSeed()}
	d.mu.Lock()
	d.order.ranked, d.order.events = true, nil
	there := make([]saved, 0, len(d.at))
	for p, at := range d.at {
		there = append(there, saved{value: at.value, copy: p})
	}
	d.mu.Unlock()
	slices.SortFunc(there, func(a, b saved) int { return cmp.Compare(a.value, b.value) })
	past := newOrder()
	past.ranked = true
	for _, s := range there {
		if e, err := d.entry(s.copy); err == nil {
			s.writer = e.Writer
			past.came(s)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order.events = slices.Concat(past.events, d.order.events)
	return r
}

// Tend passes on what befell the copies.
func (r *Ranking) Tend(ctx context.Context) error {
	d := r.disk
	d.mu.Lock()
	noted := d.order.events
	d.order.events = nil
	d.mu.Unlock()
	if len(noted) == 0 {
		return nil
	}
	events := make([]evict.Event, 0, len(noted))
	for _, n := range noted {
		e := evict.Event{Op: n.op, ID: evict.ID(n.put), Parent: evict.ID(n.parent)}
		if n.op == evict.Insert {
			have, err := d.entry(n.put)
			if err != nil {
				continue // It is gone.
			}
			e.Size, e.Fingerprint = have.Size, max(maphash.String(r.seed, have.Name), 1)
		}
		events = append(events, e)
	}
	for batch := range slices.Chunk(events, evictBatch) {
		call, cancel := context.WithTimeout(ctx, policyTimeout)
		err := r.policy.Record(call, batch)
		cancel()
		if err != nil {
			return fmt.Errorf("storage tier: the eviction policy does not answer: %w", err)
		}
	}
	return nil
}

// Evict has clear take copies out of the pool until they add up to bytes, and returns how many bytes went. clear gets the
// names of objects and returns those whose copy here is gone; the others are in use. Names are as the ledger has them.
func (r *Ranking) Evict(ctx context.Context, bytes uint64, clear func(ctx context.Context, names []string) ([]string, error)) (freed uint64, err error) {
	if err := r.Tend(ctx); err != nil {
		return 0, err
	}
	for idle := 0; freed < bytes && idle < maxIdleRounds; idle++ {
		call, cancel := context.WithTimeout(ctx, policyTimeout)
		victims, err := r.policy.Propose(call, make([]evict.Candidate, 0, evictBatch), bytes-freed)
		cancel()
		if err != nil || len(victims) == 0 {
			return freed, err
		}
		went, err := r.take(ctx, victims, clear)
		if freed += went; err != nil {
			return freed, err
		}
		if went > 0 {
			idle = -1
		}
	}
	return freed, nil
}

// take evicts the victims that clear takes.
func (r *Ranking) take(ctx context.Context, victims []evict.Candidate, clear func(context.Context, []string) ([]string, error)) (went uint64, err error) {
	names := map[string]evict.Candidate{}
	verdicts := make([]evict.Verdict, 0, len(victims))
	for _, v := range victims {
		if e, err := r.disk.entry(ledger.Put(v.ID)); err == nil {
			names[e.Name] = v
		} else {
			verdicts = append(verdicts, evict.Verdict{ID: v.ID, Evicted: true}) // It went meanwhile.
		}
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(names[a].ID, names[b].ID) })
	cleared, err := clear(ctx, all)
	for _, name := range cleared {
		if v, ok := names[name]; ok {
			verdicts = append(verdicts, evict.Verdict{ID: v.ID, Evicted: true})
			went += v.Size
			delete(names, name)
		}
	}
	for _, v := range names {
		verdicts = append(verdicts, evict.Verdict{ID: v.ID})
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), policyTimeout)
	defer cancel()
	if e := r.policy.Resolve(call, verdicts); err == nil && e != nil {
		err = fmt.Errorf("storage tier: the eviction policy does not answer: %w", e)
	}
	return went, err
}
