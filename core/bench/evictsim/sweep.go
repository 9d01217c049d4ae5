// Package evictsim plays a trace against an eviction policy and counts what a pool of a
// given size would have hit. It drives any evict.Policy through its contract, as the master
// does, so that what is measured is the code that runs.
//
// The pool holds a number of blocks, all of one size. Blocks of a request are looked up in
// order; each is an access when it is there, and is inserted at once when it is not, after
// the policy gave up a block where the pool was full. Requests do not overlap, and no block
// is leased. This is the rule of published hit ratios.
//
// The prefix hit ratio counts a block only if all before it in its request hit as well: an
// engine can use nothing behind the first gap.
//
// A tier behind memory (Tier) is a second pool, which the sweep makes larger than memory by some ratio. A hit in either
// is a hit.
//
// The optimum knows the future and may decline to insert. No policy has a higher block hit ratio;
// its prefix hit ratio follows from that and is no bound for others. Where there is a tier, the optimum has one pool with
// the space of both.
package evictsim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// OptimumName is the name of the optimum among the policies.
const OptimumName = "optimum"

// Contender is what a sweep compares: a policy plugin with its default configuration, or
// the optimum where Factory is nil.
type Contender struct {
	Name    string
	Factory evict.Factory
	// Default marks the policy that a master uses unless told otherwise.
	Default bool
	// Cells is over how many cells the keys and the capacity are divided, each with a policy of its own; 0 counts as 1.
	// The optimum knows none.
	Cells int
}

// Tiers puts a tier behind memory: Tier blocks for each Memory blocks of the pool, both at least 1.
type Tiers struct {
	Memory, Tier int
	Factory      evict.Factory // of the policy of the tier, with its default configuration
	Promotion    int           // see Tier.Promotion
}

// String is the ratio, such as 1:10.
func (x *Tiers) String() string { return fmt.Sprintf("%d:%d", x.Memory, x.Tier) }

// behind returns how many blocks the tier behind a pool holds.
func (x *Tiers) behind(capacity int) int {
	if x == nil {
		return 0
	}
	return max(capacity*x.Tier/x.Memory, 1)
}

// Options says what to simulate.
type Options struct {
	Contenders []Contender
	Capacities []int  // in blocks, at least 1 each
	Tiers      *Tiers // nil for memory alone
	// Parallel is how many simulations run at a time, at least 1.
	Parallel int
	// Each is called after each simulation with how many are done, where it is set. Calls
	// do not overlap.
	Each func(done, total int)
}

// Sweep simulates every contender at every capacity and returns the results in the order
// of the options. The first failure ends it, and says which simulation it was.
func Sweep(ctx context.Context, t *Trace, o Options) (Results, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(Results, 0, len(o.Contenders)*len(o.Capacities))
	for _, c := range o.Contenders {
		for _, capacity := range o.Capacities {
			results = append(results, Result{Policy: c.Name, Capacity: capacity, Default: c.Default})
		}
	}
	var mu sync.Mutex
	done := 0
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range min(max(o.Parallel, 1), len(results)) {
		wg.Go(func() {
			for i := range jobs {
				r := &results[i]
				c := o.Contenders[i/len(o.Capacities)]
				hits, err := run(ctx, t, c, r.Capacity, o.Tiers)
				if err != nil {
					cancel(fmt.Errorf("%s at %d blocks: %w", r.Policy, r.Capacity, err))
					continue
				}
				r.count(hits, t.Blocks(), c, o.Tiers)
				mu.Lock()
				if done++; o.Each != nil {
					o.Each(done, len(results))
				}
				mu.Unlock()
			}
		})
	}
	for i := range results {
		if ctx.Err() != nil {
			break
		}
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return results, nil
}

// stopTimeout bounds how long a policy may take to stop.
const stopTimeout = 10 * time.Second

func run(ctx context.Context, t *Trace, c Contender, capacity int, x *Tiers) (Hits, error) {
	if c.Factory == nil {
		return Optimum(t, capacity+x.behind(capacity)), nil
	}
	factories := slices.Repeat([]evict.Factory{c.Factory}, max(c.Cells, 1))
	if x != nil {
		factories = append(factories, x.Factory)
	}
	var policies []evict.Policy
	var err error
	for _, f := range factories {
		var p evict.Policy
		if p, err = f.New(f.DefaultConfig()); err != nil {
			break
		}
		if err = p.Start(ctx, quiet{}); err != nil {
			err = fmt.Errorf("start: %w", err)
			break
		}
		policies = append(policies, p)
	}
	var hits Hits
	switch {
	case err != nil:
	case x == nil:
		hits, err = SimulateCells(ctx, t, policies, capacity, nil)
	default:
		last := len(policies) - 1
		tier := Tier{Policy: policies[last], Capacity: x.behind(capacity), Promotion: x.Promotion}
		hits, err = SimulateCells(ctx, t, policies[:last], capacity, &tier)
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, p := range policies {
		if e := p.Stop(stop); e != nil && err == nil {
			err = fmt.Errorf("stop: %w", e)
		}
	}
	return hits, err
}

// quiet is the host of a simulated policy.
type quiet struct{}

// Logger implements plugin.Host.
func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Report implements plugin.Host.
func (quiet) Report(plugin.Health) {}
