package chaos

import (
	"context"
	"errors"
)

// fault is something that happens to a pool.
type fault struct {
	// name selects the fault, title is what it is called in rows.
	name, title string
	// linked puts the first store behind a link. clients starts processes that put.
	linked, clients bool
	// strike applies the fault and returns when what it broke runs again, or is starting.
	strike func(context.Context, *round) error
}

var faults = []fault{
	{name: "master-kill", title: "master kill -9", strike: func(_ context.Context, r *round) error {
		r.pool.master.Kill()
		return r.pool.startMaster()
	}},
	{name: "master-term", title: "master SIGTERM", strike: func(ctx context.Context, r *round) error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return errors.Join(r.pool.master.Stop(ctx), r.pool.startMaster())
	}},
	{name: "master-stop", title: "master SIGSTOP", strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.master)
	}},
	{name: "store-kill", title: "store kill -9", strike: func(_ context.Context, r *round) error {
		r.pool.stores[0].Kill()
		return r.pool.startStore(0)
	}},
	{name: "store-stop", title: "store SIGSTOP", strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.stores[0])
	}},
	{name: "client-kill", title: "client kill -9", clients: true, strike: func(_ context.Context, r *round) error {
		r.victims.kill()
		return nil
	}},
	{name: "pool-kill", title: "pool kill -9", clients: true, strike: func(_ context.Context, r *round) error {
		for _, s := range r.pool.stores {
			s.Kill()
		}
		r.pool.master.Kill()
		r.victims.kill()
		return r.pool.startAll()
	}},
	{name: "link-cut", title: "link cut", linked: true, strike: func(ctx context.Context, r *round) error {
		return r.link.cut(ctx, r.opts.Pause)
	}},
}
