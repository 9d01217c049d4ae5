package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Deregister ends a registration. Once it has returned nil, the devices refuse requests of peers
// for the region. The withdrawal runs in the background; work counts it.
func (g *Registry) Deregister(ctx context.Context, id transport.RegionID, work *sync.WaitGroup) error {
	const op = "transport/rdma: deregister"
	r := g.Get(id)
	if r == nil || !r.ready.Load() {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	r.Gone.Store(true)
	r.mu.Lock()
	w := r.exit
	if w == nil {
		w = &withdrawal{done: make(chan struct{})}
		r.exit = w
		work.Go(func() { g.end(r, w) })
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

// end withdraws a region and, on success, forgets it.
func (g *Registry) end(r *Region, w *withdrawal) {
	defer close(w.done)
	g.deactivate(r)
	if w.err = r.withdraw(); w.err == nil {
		g.forget(r)
		g.count.Add(-1)
	}
}

// withdraw ends the registrations on all devices. It may be tried again after an error.
func (r *Region) withdraw() error {
	r.Gone.Store(true)
	failures := make([]error, len(r.MRs))
	var wg sync.WaitGroup
	for i, mrs := range r.MRs {
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

// Close withdraws every region. No other call is in progress.
func (g *Registry) Close(log *slog.Logger) {
	for _, r := range g.all() {
		g.deactivate(r)
		if err := r.withdraw(); err != nil {
			log.Error("memory could not be withdrawn", "region", r.ID, "error", err)
		}
		g.forget(r)
	}
}
