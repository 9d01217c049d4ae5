package transfer

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// registerWidth bounds the regions that are registered at once.
const registerWidth = 8

// RegisterBatch registers several pieces of memory, or none: when one is refused or the
// directory does not take the news, what was registered is taken back. It publishes once,
// unless nothing of it is open to peers. The ids are in the order of the memory.
func (e *Engine) RegisterBatch(ctx context.Context, list []Memory) ([]transport.RegionID, error) {
	e.join()
	regions := make([]*region, 0, len(list))
	open := false
	for i := range list {
		r, err := e.reserve(&list[i])
		if err != nil {
			for _, r := range regions {
				e.regions.remove(r)
			}
			return nil, err
		}
		regions = append(regions, r)
		open = open || r.access&transport.AccessRemote != 0
	}
	failures := make([]error, len(regions))
	inParallel(len(regions), func(i int) { failures[i] = e.admit(ctx, regions[i], &list[i]) })
	err := errors.Join(failures...)
	if err == nil && open {
		err = e.Publish(ctx)
	}
	if err == nil {
		ids := make([]transport.RegionID, len(regions))
		for i, r := range regions {
			ids[i] = r.id
		}
		return ids, nil
	}
	// Not with the caller's context, which may be what ended it.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ConnectTimeout)
	defer cancel()
	for _, r := range regions {
		if r := e.regions.retire(r.id); r != nil {
			err = errors.Join(err, e.end(back, r))
		}
	}
	return nil, errs.Wrap(errs.CodeOf(err), "transfer: register memory", err)
}

// DeregisterBatch ends regions and publishes once, before their memory is closed to peers.
// It goes on after a failure; the error joins them all. Of a region that is named in it,
// the memory must not be reused.
func (e *Engine) DeregisterBatch(ctx context.Context, ids []transport.RegionID) error {
	var failed error
	var ending []*region
	for _, id := range ids {
		if r := e.regions.retire(id); r != nil {
			ending = append(ending, r)
		} else {
			failed = errors.Join(failed, errs.New(errs.InvalidParams, "transfer: deregister memory", "no region has the id %d", id))
		}
	}
	failed = errors.Join(failed, e.republish(ctx))
	failures := make([]error, len(ending))
	inParallel(len(ending), func(i int) { failures[i] = e.end(ctx, ending[i]) })
	failed = errors.Join(failed, errors.Join(failures...))
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
