package rdma

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Deregister implements transport.Transport. The devices refuse what peers ask for from the
// moment on at which it returns nil.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "transport/rdma: deregister"
	if err := n.begin(op); err != nil {
		return err
	}
	defer n.traffic.Done()
	r := n.regions.get(id)
	if r == nil || !r.ready.Load() {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	r.gone.Store(true)
	r.mu.Lock()
	w := r.exit
	if w == nil {
		w = &withdrawal{done: make(chan struct{})}
		r.exit = w
		spawn(&n.traffic, func() { n.endRegion(r, w) })
	}
	r.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		return stillInUse(op, id, ctx.Err())
	}
	if w.err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exit == w {
		r.exit = nil // The next call tries again.
	}
	return stillInUse(op, id, w.err)
}

// endRegion withdraws a region and forgets it when that worked.
func (n *node) endRegion(r *region, w *withdrawal) {
	defer close(w.done)
	n.regions.deactivate(r)
	if w.err = r.withdraw(); w.err == nil {
		n.regions.forget(r)
		n.stats.regions.Add(-1)
	}
}

// withdraw ends the registrations on all devices. It may be tried again after an error.
func (r *region) withdraw() error {
	r.gone.Store(true)
	failures := make([]error, len(r.mrs))
	var wg sync.WaitGroup
	for i, mrs := range r.mrs {
		wg.Go(func() {
			for _, mr := range mrs {
				failures[i] = errors.Join(failures[i], mr.Close())
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

func stillInUse(op string, id transport.RegionID, cause error) error {
	return &errs.Error{
		Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: op,
		Err:  fmt.Errorf("region %d may still be touched by a peer, its memory must not be reused yet: %w", id, cause),
		Hint: "deregister it again with more time",
	}
}
