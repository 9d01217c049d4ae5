package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Endpoint implements transport.Transport. Without a generation it is that of the last one.
func (r *Relay) Endpoint() transport.Endpoint {
	gen := r.current()
	if gen == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.endpoint
	}
	ep := gen.t.Endpoint()
	if ep.Blob == nil && ep.Incarnation == 0 { // It does not answer.
		r.mu.Lock()
		defer r.mu.Unlock()
		return gen.endpoint
	}
	return ep
}

// Register implements transport.Transport.
func (r *Relay) Register(ctx context.Context, g transport.Region) (transport.Key, error) {
	const op = "register a region"
	if err := r.order.Acquire(ctx, 1); err != nil {
		return nil, errs.Wrap(errs.RPCTimeout, r.op(op), err)
	}
	defer r.order.Release(1)
	gen := r.current()
	if gen == nil {
		return nil, r.o.Refuse(op)
	}
	if r.knows(g.ID) {
		return nil, errs.New(errs.InvalidParams, r.op(op), "the ID %d is in use", g.ID)
	}
	key, err := gen.t.Register(ctx, g)
	gen.observe(ctx, err)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gen.keys[g.ID] = key
	r.regions = append(r.regions, g)
	return key, nil
}

func (r *Relay) knows(id transport.RegionID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index(id) >= 0
}

func (r *Relay) index(id transport.RegionID) int {
	return slices.IndexFunc(r.regions, func(g transport.Region) bool { return g.ID == id })
}

// Deregister implements transport.Transport: it deregisters the region in every generation that
// has it. A generation that ends meanwhile does not touch the region any more.
func (r *Relay) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "deregister a region"
	r.mu.Lock()
	i := r.index(id)
	if i >= 0 {
		r.regions = slices.Delete(r.regions, i, i+1)
	}
	// An earlier attempt may have failed.
	held := slices.ContainsFunc(r.gens, func(gen *Generation) bool { return gen.keys[id] != nil || gen.taking[id] != nil })
	r.mu.Unlock()
	if i < 0 && !held {
		return errs.New(errs.InvalidParams, r.op(op), "no region has the ID %d", id)
	}
	// A generation that is being enrolled may already have registered the region.
	if err := r.order.Acquire(ctx, 1); err != nil {
		r.spawn(func() {
			if r.order.Acquire(r.ctx, 1) == nil {
				_ = r.takeAll(r.ctx, id) // No caller waits for the result.
			}
		})
		return errs.Wrap(errs.RPCTimeout, r.op(op), errors.Join(err, errors.New("the memory must not be used for anything else yet")))
	}
	return r.takeAll(ctx, id)
}

// takeAll deregisters a region in every generation. The caller has acquired order with weight
// 1, which takeAll releases.
func (r *Relay) takeAll(ctx context.Context, id transport.RegionID) error {
	defer r.order.Release(1)
	var failed error
	for _, gen := range r.others() {
		failed = errors.Join(failed, r.take(ctx, gen, id))
	}
	return failed
}

// take deregisters a region in one generation. If another call is deregistering it, take waits
// for that call, since peers may access the memory until then. After an error the caller may
// retry.
func (r *Relay) take(ctx context.Context, gen *Generation, id transport.RegionID) error {
	for {
		r.mu.Lock()
		key, has := gen.keys[id]
		other := gen.taking[id]
		if other == nil && has {
			gen.taking[id] = make(chan struct{})
			delete(gen.keys, id)
		}
		r.mu.Unlock()
		switch {
		case other == nil && has:
			err := r.withdraw(ctx, gen, id)
			r.mu.Lock()
			if err != nil {
				gen.keys[id] = key
			}
			close(gen.taking[id])
			delete(gen.taking, id)
			r.mu.Unlock()
			return err
		case other == nil:
			return nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return errs.Wrap(errs.RPCTimeout, r.op("deregister a region"), ctx.Err())
		}
	}
}

// withdraw asks a generation to deregister a region. If the process is about to end, withdraw
// waits for its end.
func (r *Relay) withdraw(ctx context.Context, gen *Generation, id transport.RegionID) error {
	err := gen.t.Deregister(ctx, id)
	gen.observe(ctx, err)
	if err == nil {
		return nil
	}
	if errs.Is(err, errs.RPCFail) || errs.Is(err, errs.TransferFail) { // The process is about to end.
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

// Key returns the key of a region as peers need it now.
func (r *Relay) Key(id transport.RegionID) (transport.Key, error) {
	const op = "renew a key"
	r.mu.Lock()
	i, gen := r.index(id), r.now
	var key transport.Key
	if i >= 0 && gen != nil {
		key = gen.keys[id]
	}
	r.mu.Unlock()
	switch {
	case i < 0:
		return nil, errs.New(errs.InvalidParams, r.op(op), "no region has the ID %d", id)
	case gen == nil:
		return nil, r.o.Refuse(op)
	}
	return key, nil
}

// Dial implements transport.Transport.
func (r *Relay) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	gen := r.current()
	if gen == nil {
		return nil, r.refuse("dial")
	}
	p := newPath(r, peer)
	in, err := p.dial(ctx, gen)
	if err != nil {
		return nil, err
	}
	p.inner = in
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		p.leave(gen)
		return nil, r.refuse("dial")
	}
	r.paths[p] = struct{}{}
	current := r.now == gen
	r.mu.Unlock()
	if !current { // The generation changed before the relay knew the path.
		p.moved(gen)
	}
	return p.wrapped(), nil
}
