// Package tierrelay makes the data side of a storage tier that outlives the processes that carry it.
//
// Below the caller's tier is a Generation for each process, as in package relay. The relay keeps the
// registered regions and registers them with each new generation. An accepted operation belongs to
// the generation that took it and completes there. While there is no generation, calls fail at once.
//
//	gen := r.Begin(t, observe)      // a process was started
//	err := r.Enroll(ctx, gen)       // register the regions; other changes wait from here ...
//	r.Use(gen)                      // ... to here, or Drop
//	r.Lost(gen)                     // send it no more work
//	r.Ended(gen)                    // the process is gone and its operations are complete
//	err = r.Retire(ctx, gen)        // or: let it finish, after which it is not needed
package tierrelay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

const (
	// exclusive is the weight that a change of the generation acquires, so that all others wait.
	exclusive = 1 << 30
	// window is how many operations are accepted before their completions are reaped.
	window = 1024
)

// Relay is the data side of a tier: it implements Register, Deregister, Submit and Reap of tier.Tier.
// It is safe for concurrent use.
type Relay struct {
	id     string
	refuse func(op string) error
	// order is acquired with weight 1 to change the registered regions, and with weight exclusive to
	// change the generation.
	order *semaphore.Weighted

	mu      sync.Mutex
	closed  bool
	regions []tier.Region // in the order in which they were registered
	closing map[tier.RegionID]bool
	now     *Generation // nil while there is none
	gens    []*Generation
	reapers int // generations that may still have completions
	owed    int // operations whose last completion was not reaped
	done    []tier.Completion
	news    chan struct{} // closed and replaced when done, reapers, closed or inFlight of a generation change
}

// Generation is one process that carries the tier.
type Generation struct {
	r       *Relay
	t       tier.Tier
	observe func(ctx context.Context, err error)
	ended   chan struct{} // closed by Ended

	// Guarded by r.mu.
	gone     bool
	has      map[tier.RegionID]bool
	inFlight int // accepted operations that have not completed
}

// New makes a relay without a generation. refuse returns the error of a call that finds none.
func New(id plugin.ID, refuse func(op string) error) *Relay {
	return &Relay{
		id: id.String(), refuse: refuse, order: semaphore.NewWeighted(exclusive), closing: map[tier.RegionID]bool{}, news: make(chan struct{}),
	}
}

// Close ends the relay. Generations end on their own. Reap returns the completions that are left, then
// ErrStopped. Close may be called more than once.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.broadcast()
}

// broadcast wakes the goroutines that wait. The caller holds r.mu.
func (r *Relay) broadcast() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *Relay) op(op string) string { return r.id + ": " + op }

// current returns the generation that takes new work, or why there is none.
func (r *Relay) current(op string) (*Generation, error) {
	r.mu.Lock()
	gen := r.now
	r.mu.Unlock()
	if gen == nil {
		return nil, r.refuse(op)
	}
	return gen, nil
}

// Submit implements tier.Tier.
func (r *Relay) Submit(ops []tier.Op) (int, error) {
	r.mu.Lock()
	gen, n := r.now, min(len(ops), window-r.owed)
	if gen == nil {
		r.mu.Unlock()
		return 0, r.refuse("submit")
	}
	// They are counted first, since a completion may come before Submit returns. Retire waits for them.
	r.owed += n
	gen.inFlight += n
	r.mu.Unlock()
	if n == 0 {
		return 0, nil
	}
	accepted, err := gen.t.Submit(ops[:n])
	if accepted < n {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.owed -= n - accepted
		gen.inFlight -= n - accepted
		r.broadcast()
	}
	return accepted, err
}

// Reap implements tier.Tier.
func (r *Relay) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		r.mu.Lock()
		n := copy(dst, r.done)
		r.done = slices.Delete(r.done, 0, n)
		for _, c := range dst[:n] {
			if c.Status != tier.Quarantined {
				r.owed--
			}
		}
		over, news := r.closed && r.reapers == 0, r.news
		r.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case over:
			return 0, fmt.Errorf("%s: %w", r.id, tier.ErrStopped)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: reap: %w", r.id, ctx.Err())
		}
	}
}

// Register implements tier.Tier.
func (r *Relay) Register(ctx context.Context, g tier.Region) error {
	const op = "register"
	if _, err := r.current(op); err != nil {
		return err
	}
	if err := r.order.Acquire(ctx, 1); err != nil {
		return errs.Wrap(errs.RPCTimeout, r.op(op), err)
	}
	defer r.order.Release(1)
	gen, err := r.current(op)
	if err != nil {
		return err
	}
	if r.knows(g.ID) {
		return errs.New(errs.InvalidParams, r.op(op), "region ID %d is in use", g.ID)
	}
	err = gen.t.Register(ctx, g)
	gen.observe(ctx, err)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.regions = append(r.regions, g)
	gen.has[g.ID] = true
	return nil
}

func (r *Relay) knows(id tier.RegionID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index(id) >= 0
}

func (r *Relay) index(id tier.RegionID) int {
	return slices.IndexFunc(r.regions, func(g tier.Region) bool { return g.ID == id })
}

// Deregister implements tier.Tier: it deregisters the region in every generation that has it. A
// generation that has ended does not touch the region any more.
func (r *Relay) Deregister(ctx context.Context, id tier.RegionID) error {
	const op = "deregister"
	r.mu.Lock()
	known, none := r.index(id) >= 0, r.now == nil && len(r.regions) == 0 || r.closed
	if known {
		r.closing[id] = true
	}
	r.mu.Unlock()
	switch {
	case none:
		return r.refuse(op)
	case !known:
		return errs.New(errs.InvalidParams, r.op(op), "region %d is not registered", id)
	}
	// A generation that is being enrolled may already have registered the region.
	waited := r.order.Acquire(ctx, 1)
	var failed error
	for _, gen := range r.others() {
		failed = errors.Join(failed, gen.take(ctx, id)) // It closes the region also if ctx has ended.
	}
	if waited != nil {
		return errs.WithHint(errs.Wrap(errs.RPCTimeout, r.op(op), errors.Join(failed, waited)), "the memory of region %d must not be used for anything else yet; deregister it again", id)
	}
	defer r.order.Release(1)
	if failed != nil {
		return failed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.index(id); i >= 0 && r.closing[id] {
		r.regions = slices.Delete(r.regions, i, i+1)
	}
	delete(r.closing, id)
	return nil
}

// others lists the generations that have not ended.
func (r *Relay) others() []*Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.gens)
}
