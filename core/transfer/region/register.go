package region

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// registerWidth bounds the regions that are registered at once.
const registerWidth = 8

// Register makes memory usable on every transport that takes it.
func (t *Table) Register(ctx context.Context, m Memory) (transport.RegionID, error) {
	t.carriers.Join()
	r, err := t.reserve(&m)
	if err != nil {
		return 0, err
	}
	if err := t.admit(ctx, r); err != nil {
		return 0, err
	}
	return r.id, nil
}

// admit registers a reserved region with the transports, or gives it up.
func (t *Table) admit(ctx context.Context, r *Region) error {
	var failed error
	taken, broken := 0, false
	for i := range t.carriers.List {
		c := &t.carriers.List[i]
		key, err := r.registerOn(ctx, c)
		if err != nil {
			r.keys[i].later.Store(errs.ClassOf(err) != errs.ClassPermanent)
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
			broken = broken || !errs.Is(err, errs.NotSupported)
			continue
		}
		r.keys[i].set(key)
		taken++
	}
	if taken == 0 {
		t.remove(r)
		return errs.Wrap(errs.CodeOf(failed), "transfer: register "+memory.Human(uint64(len(r.Mem))), failed)
	}
	r.ready.Store(true)
	if failed != nil {
		level := slog.LevelWarn
		if !broken {
			level = slog.LevelDebug
		}
		t.log.Log(ctx, level, "memory is not registered with every transport", "bytes", len(r.Mem), "error", failed)
	}
	return nil
}

// registerOn registers the region with one transport.
func (r *Region) registerOn(ctx context.Context, c *carrier.Carrier) (transport.Key, error) {
	in, err := r.on(c)
	if err != nil {
		return nil, err
	}
	return c.Transport.Register(ctx, in)
}

// RegisterAll registers all of the list or nothing. Where some of it is open to peers, it calls
// publish before it succeeds. Taking back may last for limit.
func (t *Table) RegisterAll(ctx context.Context, list []Memory, limit time.Duration, publish func(context.Context) error) ([]transport.RegionID, error) {
	t.carriers.Join()
	reserved := make([]*Region, 0, len(list))
	open := false
	for i := range list {
		r, err := t.reserve(&list[i])
		if err != nil {
			for _, r := range reserved {
				t.remove(r)
			}
			return nil, err
		}
		reserved = append(reserved, r)
		open = open || r.Access&transport.AccessRemote != 0
	}
	failures := make([]error, len(reserved))
	inParallel(len(reserved), func(i int) { failures[i] = t.admit(ctx, reserved[i]) })
	err := errors.Join(failures...)
	if err == nil && open {
		err = publish(ctx)
	}
	if err == nil {
		ids := make([]transport.RegionID, len(reserved))
		for i, r := range reserved {
			ids[i] = r.id
		}
		return ids, nil
	}
	// The caller's context may be the cause, so taking back has one of its own.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	for _, r := range reserved {
		if r := t.retire(r.id); r != nil {
			err = errors.Join(err, t.end(back, r))
		}
	}
	return nil, errs.Wrap(errs.CodeOf(err), "transfer: register memory", err)
}

// Deregister ends a region; InvalidParams for an unknown id.
func (t *Table) Deregister(ctx context.Context, id transport.RegionID) error {
	r := t.retire(id)
	if r == nil {
		return errs.New(errs.InvalidParams, "transfer: deregister memory", "no region has the id %d", id)
	}
	return t.end(ctx, r)
}

// DeregisterAll ends regions, and calls publish before their memory is closed to peers.
func (t *Table) DeregisterAll(ctx context.Context, ids []transport.RegionID, publish func(context.Context) error) error {
	var failed error
	var ending []*Region
	for _, id := range ids {
		if r := t.retire(id); r != nil {
			ending = append(ending, r)
		} else {
			failed = errors.Join(failed, errs.New(errs.InvalidParams, "transfer: deregister memory", "no region has the id %d", id))
		}
	}
	failed = errors.Join(failed, publish(ctx))
	failures := make([]error, len(ending))
	inParallel(len(ending), func(i int) { failures[i] = t.end(ctx, ending[i]) })
	failed = errors.Join(failed, errors.Join(failures...))
	return errs.Wrap(errs.CodeOf(failed), "transfer: deregister memory", failed)
}

// Close ends the regions that are left.
func (t *Table) Close(ctx context.Context) error {
	var failed error
	for _, r := range t.all() {
		if r := t.retire(r.id); r != nil {
			failed = errors.Join(failed, t.end(ctx, r))
		}
	}
	return failed
}

// end ends a retired region. Until it returns, nothing else is registered over it.
func (t *Table) end(ctx context.Context, r *Region) error {
	defer t.remove(r)
	r.use.Lock()
	r.gone = true
	r.use.Unlock()
	var failed error
	for i, c := range t.carriers.List {
		if !r.Registered(i) {
			continue
		}
		if err := c.Transport.Deregister(ctx, r.id); err != nil {
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
		}
	}
	return errs.Wrap(errs.CodeOf(failed), "transfer: deregister memory", failed)
}

// inParallel calls f for 0 to n-1, a few at once.
func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	turn := make(chan struct{}, registerWidth)
	for i := range n {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			f(i)
		})
	}
	wg.Wait()
}

// RenewKeys reads the keys of regions again where the transport may have made new ones. A region
// that the transport no longer serves stays in the table and is not offered to peers.
func (t *Table) RenewKeys(i int, list []*Region) {
	renewing, ok := transport.As[carrier.Renewing](t.carriers.List[i].Transport)
	if !ok {
		return
	}
	for _, r := range list {
		k := &r.keys[i]
		if !k.has() {
			continue
		}
		switch key, err := renewing.Key(r.id); {
		case err == nil && len(key) > 0:
			k.set(key)
		case errs.ClassOf(err) == errs.ClassLocalDevice:
			k.set(nil)
		}
	}
}

// CatchUp registers with a transport that is back the regions that it could not take while it was
// away.
func (t *Table) CatchUp(ctx context.Context, carrier int) {
	for _, r := range t.all() {
		if !r.keys[carrier].later.Load() || !r.ready.Load() {
			continue
		}
		if err := t.registerLate(ctx, r, carrier); err != nil {
			t.log.Debug("memory is still not registered with a transport", "transport", t.carriers.List[carrier].Name, "bytes", len(r.Mem), "error", err)
		}
	}
}

func (t *Table) registerLate(ctx context.Context, r *Region, carrier int) error {
	if !r.Hold() {
		return nil
	}
	defer r.LetGo()
	if r.Registered(carrier) {
		return nil
	}
	c := &t.carriers.List[carrier]
	key, err := r.registerOn(ctx, c)
	if err == nil {
		r.keys[carrier].set(key)
		r.keys[carrier].later.Store(false)
	}
	return err
}
