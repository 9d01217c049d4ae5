package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Endpoint implements transport.Transport. Without a life it is that of the last one.
func (r *Relay) Endpoint() transport.Endpoint {
	l := r.current()
	if l == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.endpoint
	}
	ep := l.t.Endpoint()
	if ep.Blob == nil && ep.Incarnation == 0 { // It does not answer.
		r.mu.Lock()
		defer r.mu.Unlock()
		return l.endpoint
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
	l := r.current()
	if l == nil {
		return nil, r.o.Refuse(op)
	}
	if r.knows(g.ID) {
		return nil, errs.New(errs.InvalidParams, r.op(op), "the ID %d is in use", g.ID)
	}
	key, err := l.t.Register(ctx, g)
	l.observe(ctx, err)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.keys[g.ID] = key
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

// Deregister implements transport.Transport: it ends the region in every life that has it.
// One that ends meanwhile touches it no more.
func (r *Relay) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "deregister a region"
	r.mu.Lock()
	i := r.index(id)
	if i >= 0 {
		r.regions = slices.Delete(r.regions, i, i+1)
	}
	// An attempt before may have failed.
	held := slices.ContainsFunc(r.lives, func(l *Life) bool { return l.keys[id] != nil || l.taking[id] != nil })
	r.mu.Unlock()
	if i < 0 && !held {
		return errs.New(errs.InvalidParams, r.op(op), "no region has the ID %d", id)
	}
	// A life that is being taught may have been told of the region.
	if err := r.order.Acquire(ctx, 1); err != nil {
		r.spawn(func() {
			if r.order.Acquire(r.ctx, 1) == nil {
				_ = r.takeAll(r.ctx, id) // Nobody waits for it.
			}
		})
		return errs.Wrap(errs.RPCTimeout, r.op(op), errors.Join(err, errors.New("the memory must not be used for anything else yet")))
	}
	return r.takeAll(ctx, id)
}

// takeAll ends a region in every life. The caller holds a share of the order, which this
// gives back.
func (r *Relay) takeAll(ctx context.Context, id transport.RegionID) error {
	defer r.order.Release(1)
	var failed error
	for _, l := range r.others() {
		failed = errors.Join(failed, r.take(ctx, l, id))
	}
	return failed
}

// take ends a region in one life. Who comes while somebody else is at it waits for that one:
// until then peers may be at work in the memory. After an error it may be tried again.
func (r *Relay) take(ctx context.Context, l *Life, id transport.RegionID) error {
	for {
		r.mu.Lock()
		key, has := l.keys[id]
		other := l.taking[id]
		if other == nil && has {
			l.taking[id] = make(chan struct{})
			delete(l.keys, id)
		}
		r.mu.Unlock()
		switch {
		case other == nil && has:
			err := r.withdraw(ctx, l, id)
			r.mu.Lock()
			if err != nil {
				l.keys[id] = key
			}
			close(l.taking[id])
			delete(l.taking, id)
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

// withdraw tells a life to end a region, or waits for the end of one that does not answer.
func (r *Relay) withdraw(ctx context.Context, l *Life, id transport.RegionID) error {
	err := l.t.Deregister(ctx, id)
	l.observe(ctx, err)
	if err == nil {
		return nil
	}
	if errs.Is(err, errs.RPCFail) || errs.Is(err, errs.TransferFail) { // The process is about to be gone.
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-l.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	select {
	case <-l.ended:
		return nil
	default:
		return err
	}
}

// Key returns the key of a region as peers need it now.
func (r *Relay) Key(id transport.RegionID) (transport.Key, error) {
	const op = "renew a key"
	r.mu.Lock()
	i, l := r.index(id), r.now
	var key transport.Key
	if i >= 0 && l != nil {
		key = l.keys[id]
	}
	r.mu.Unlock()
	switch {
	case i < 0:
		return nil, errs.New(errs.InvalidParams, r.op(op), "no region has the ID %d", id)
	case l == nil:
		return nil, r.o.Refuse(op)
	}
	return key, nil
}

// Dial implements transport.Transport.
func (r *Relay) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	l := r.current()
	if l == nil {
		return nil, r.refuse("dial")
	}
	p := newPath(r, peer)
	g, err := p.dial(ctx, l)
	if err != nil {
		return nil, err
	}
	p.leg = g
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		p.leave(l)
		return nil, r.refuse("dial")
	}
	r.paths[p] = struct{}{}
	current := r.now == l
	r.mu.Unlock()
	if !current { // It changed meanwhile, and the path was not known then.
		p.moved(l)
	}
	return p.face(), nil
}
