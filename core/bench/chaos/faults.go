package chaos

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// fault is something that happens to a pool.
type fault struct {
	// name selects the fault, title is what it is called in rows.
	name, title string
	// on is the pool that it happens to. clients starts processes that put.
	on      layout
	clients bool
	// strike applies the fault and returns when what it broke runs again, or is starting.
	strike func(context.Context, *round) error
}

var faults = []fault{
	{name: "master-kill", title: "master kill -9", strike: func(_ context.Context, r *round) error {
		r.pool.masters[0].Kill()
		return r.pool.startMaster(0)
	}},
	{name: "master-term", title: "master SIGTERM", strike: func(ctx context.Context, r *round) error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return errors.Join(r.pool.masters[0].Stop(ctx), r.pool.startMaster(0))
	}},
	{name: "master-stop", title: "master SIGSTOP", strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.masters[0])
	}},
	{name: "store-kill", title: "store kill -9", strike: func(_ context.Context, r *round) error {
		r.pool.stores[0].Kill()
		return r.pool.startStore(0)
	}},
	{name: "store-stop", title: "store SIGSTOP", strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.stores[0])
	}},
	{name: "store-stop-replicated", title: "store SIGSTOP, two replicas", on: layout{replicas: stores}, strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.stores[0])
	}},
	{name: "store-term", title: "store SIGTERM", strike: func(ctx context.Context, r *round) error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return errors.Join(r.pool.stores[0].Stop(ctx), r.pool.startStore(0))
	}},
	{name: "client-kill", title: "client kill -9", clients: true, strike: func(_ context.Context, r *round) error {
		r.victims.kill()
		return nil
	}},
	{name: "pool-kill", title: "pool kill -9", clients: true, strike: func(_ context.Context, r *round) error {
		for _, s := range r.pool.stores {
			s.Kill()
		}
		r.pool.masters[0].Kill()
		r.victims.kill()
		return r.pool.startAll()
	}},
	{name: "pool-stop", title: "pool SIGSTOP", strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.masters[0], r.pool.stores[0], r.pool.stores[1])
	}},
	{name: "link-cut", title: "link cut", on: layout{linked: true}, strike: func(ctx context.Context, r *round) error {
		return r.link.cut(ctx, r.opts.Pause)
	}},
	{name: "leader-kill", title: "leader kill -9", on: layout{masters: electedMasters}, strike: func(ctx context.Context, r *round) error {
		return r.atLeader(ctx, func(i int) error {
			r.pool.masters[i].Kill()
			return r.pool.startMaster(i)
		})
	}},
	{name: "leader-term", title: "leader SIGTERM", on: layout{masters: electedMasters}, strike: func(ctx context.Context, r *round) error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return r.atLeader(ctx, func(i int) error {
			return errors.Join(r.pool.masters[i].Stop(ctx), r.pool.startMaster(i))
		})
	}},
	{name: "leader-stop", title: "leader SIGSTOP", on: layout{masters: electedMasters}, strike: func(ctx context.Context, r *round) error {
		return r.atLeader(ctx, func(i int) error { return r.pool.freeze(ctx, r.pool.masters[i]) })
	}},
	{name: "leader-store-kill", title: "leader and store kill -9", on: layout{masters: electedMasters}, strike: func(ctx context.Context, r *round) error {
		return r.atLeader(ctx, func(i int) error {
			r.pool.masters[i].Kill()
			r.pool.stores[0].Kill()
			return errors.Join(r.pool.startMaster(i), r.pool.startStore(0))
		})
	}},
	{name: "masters-kill", title: "masters kill -9", on: layout{masters: electedMasters}, strike: func(_ context.Context, r *round) error {
		for _, m := range r.pool.masters {
			m.Kill()
		}
		return r.pool.startMasters()
	}},
	{name: "etcd-kill", title: "etcd kill -9", on: layout{masters: electedMasters}, strike: func(_ context.Context, r *round) error {
		r.pool.etcd.proc.Kill()
		return r.pool.etcd.start()
	}},
	{name: "etcd-stop", title: "etcd SIGSTOP", on: layout{masters: electedMasters}, strike: func(ctx context.Context, r *round) error {
		return r.pool.freeze(ctx, r.pool.etcd.proc)
	}},
	// What a machine runs that has a master and its etcd member.
	{name: "embedded-kill", title: "leader and its etcd member kill -9", on: layout{masters: electedMasters, embedded: true}, strike: func(ctx context.Context, r *round) error {
		return r.atLeader(ctx, func(i int) error {
			r.pool.masters[i].Kill()
			return r.pool.startMaster(i)
		})
	}},
	{name: "embedded-stop", title: "leader and its etcd member SIGSTOP", on: layout{masters: electedMasters, embedded: true}, strike: func(ctx context.Context, r *round) error {
		return r.atLeader(ctx, func(i int) error { return r.pool.freezeMachine(ctx, i) })
	}},
	{name: "upgrade", title: "upgrade and downgrade", on: layout{old: true}, strike: rollBoth},
	{name: "upgrade", title: "upgrade and downgrade, three masters", on: layout{old: true, masters: electedMasters}, strike: rollBoth},
}

// atLeader does something to the master that leads.
func (r *round) atLeader(ctx context.Context, do func(master int) error) error {
	i, _, err := r.pool.leader(ctx)
	if err != nil {
		return errors.Join(errNoLeader, err)
	}
	return do(i)
}

// Names returns the names of all faults, in order. A name may select several.
func Names() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return slices.Compact(names)
}

// selected returns the faults of a run, in the order of Names.
func (o Options) selected() []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return len(o.Faults) > 0 && !slices.Contains(o.Faults, f.name)
	})
}

// checkFaults reports the first name that no fault has.
func (o Options) checkFaults() error {
	for _, name := range o.Faults {
		if !slices.Contains(Names(), name) {
			return errs.New(errs.InvalidParams, "chaos", "there is no fault %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}
