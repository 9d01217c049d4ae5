package tierrelay

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// endGrace bounds the wait for the end of a process that does not answer any more.
const endGrace = 3 * time.Second

// Begin makes a generation of a tier that was started. observe receives the outcome of each call. Once
// the process is gone, the tier completes what is in flight and then returns ErrStopped.
func (r *Relay) Begin(t tier.Tier, observe func(ctx context.Context, err error)) *Generation {
	gen := &Generation{r: r, t: t, observe: observe, ended: make(chan struct{}), has: map[tier.RegionID]bool{}}
	r.mu.Lock()
	r.gens = append(r.gens, gen)
	r.reapers++
	r.mu.Unlock()
	go gen.reap()
	return gen
}

// reap passes completions on until the tier is stopped or its process is gone.
func (gen *Generation) reap() {
	r := gen.r
	dst := make([]tier.Completion, 256)
	for {
		n, err := gen.t.Reap(context.Background(), dst)
		r.mu.Lock()
		r.done = append(r.done, dst[:n]...)
		for _, c := range dst[:n] {
			if c.Status != tier.Quarantined {
				gen.inFlight--
			}
		}
		if err != nil {
			r.reapers--
		}
		r.broadcast()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Enroll registers every region with a generation. If it returns nil, changes of the registered
// regions wait until Use or Drop.
func (r *Relay) Enroll(ctx context.Context, gen *Generation) error {
	if err := r.order.Acquire(ctx, exclusive); err != nil {
		return err
	}
	r.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(r.regions), func(g tier.Region) bool { return r.closing[g.ID] })
	r.mu.Unlock()
	for _, g := range all {
		err := gen.t.Register(ctx, g)
		gen.observe(ctx, err)
		if err != nil {
			r.order.Release(exclusive)
			return wire.Wrap(errs.CodeOf(err), r.op("register a region again"), err)
		}
		r.mu.Lock()
		gen.has[g.ID] = true
		r.mu.Unlock()
	}
	return nil
}

// Use makes an enrolled generation the current one, which takes new work.
func (r *Relay) Use(gen *Generation) {
	r.mu.Lock()
	if !gen.gone {
		r.now = gen
	}
	r.mu.Unlock()
	r.order.Release(exclusive)
}

// Drop gives up a generation that was enrolled and is not used.
func (r *Relay) Drop(gen *Generation) {
	r.order.Release(exclusive)
	r.Lost(gen)
}

// Lost takes a generation out of use: it gets no more work. Lost may be called more than once.
func (r *Relay) Lost(gen *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == gen {
		r.now = nil
	}
}

// Ended reports that the process is gone: its operations are complete, and it does not touch memory
// any more. Ended may be called more than once.
func (r *Relay) Ended(gen *Generation) {
	r.Lost(gen)
	r.mu.Lock()
	defer r.mu.Unlock()
	if gen.gone {
		return
	}
	gen.gone = true
	close(gen.ended)
	r.gens = slices.DeleteFunc(r.gens, func(o *Generation) bool { return o == gen })
}

// Retire sends a generation no more work and waits until its operations are complete.
func (r *Relay) Retire(ctx context.Context, gen *Generation) error {
	r.Lost(gen)
	for {
		r.mu.Lock()
		n, news := gen.inFlight, r.news
		r.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return errs.New(errs.RPCTimeout, r.op("finish the operations in flight"), "%d are left: %w", n, ctx.Err())
		}
	}
}

// take deregisters a region in a generation, if that has it. If the process is about to end, take
// waits for its end.
func (gen *Generation) take(ctx context.Context, id tier.RegionID) error {
	if !gen.holds(id) {
		return nil
	}
	err := gen.t.Deregister(ctx, id)
	gen.observe(ctx, err)
	if err == nil || !gen.holds(id) { // Another call has deregistered it.
		gen.r.mu.Lock()
		defer gen.r.mu.Unlock()
		delete(gen.has, id)
		return nil
	}
	if errs.Is(err, errs.RPCFail) || errs.Is(err, errs.UnavailableInCurrentStatus) { // The process is about to end.
		timer := time.NewTimer(endGrace)
		defer timer.Stop()
		select {
		case <-gen.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	select {
	case <-gen.ended:
		return nil
	default:
		return err
	}
}

func (gen *Generation) holds(id tier.RegionID) bool {
	gen.r.mu.Lock()
	defer gen.r.mu.Unlock()
	return gen.has[id]
}
