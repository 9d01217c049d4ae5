package get

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Nodes read replicas on storage tiers into memory before they can be transferred. A call does that step by step, in waves:
// while the bytes of one wave are transferred, the nodes stage those of the next. They have freed those of the one before by
// then, so that a read occupies two waves at most. What does not fit beside them into the memory of a node is staged later.

// next returns the items to transfer now and the others. Those in memory come first. If there are none, it waits for the
// wave of those on tiers that is being staged, and has the nodes stage the next one. It reuses the memory of pending.
func (c *Call) next(ctx context.Context, pending []*Item, deadline time.Time) (ready, rest []*Item) {
	if !slices.ContainsFunc(pending, onTier) {
		return pending, pending[:0]
	}
	if c.r.Tiers == nil {
		return c.skipTiers(pending), nil
	}
	if c.staging == nil {
		c.staging = c.stage(ctx, pending, deadline)
	}
	c.ready = c.ready[:0]
	for _, it := range pending {
		if !onTier(it) {
			c.ready = append(c.ready, it)
		}
	}
	if len(c.ready) > 0 {
		rest = slices.DeleteFunc(pending, func(it *Item) bool { return !onTier(it) })
	} else {
		c.renewer.begin(c.r.leases, pending)
		c.staging.done.Wait()
		c.renewer.end()
		rest = c.landed(ctx, pending)
		c.staging = c.stage(ctx, append(c.ready, rest...), deadline)
	}
	n := len(c.ready)
	c.ready = append(c.ready, rest...) // for the renewer
	return c.ready[:n], rest
}

// skipTiers moves items on to replicas in memory, for a client that cannot read others. It returns those that have one.
func (c *Call) skipTiers(items []*Item) []*Item {
	return slices.DeleteFunc(items, func(it *Item) bool {
		for onTier(it) {
			it.last = errs.WithHint(errs.New(errs.NotSupported, "", "this client cannot read storage tiers"), "read with a client of the program mooncake or of its library")
			if c.r.nextReplica(it) {
				continue
			}
			if !slices.ContainsFunc(it.object.Replicas, func(r model.Replica) bool { return !r.OnTier() }) {
				it.Err = errs.Wrap(errs.NotSupported, "store: get "+store.Quote(it.Key), it.last)
			}
			return true
		}
		return false
	})
}

// stage has nodes stage a wave of items, nil if there is nothing to stage.
func (c *Call) stage(ctx context.Context, items []*Item, deadline time.Time) *wave {
	w := &wave{beside: c.moving}
	for _, it := range items {
		if onTier(it) {
			it.divide()
			w.add(it)
		}
	}
	if len(w.calls) == 0 {
		return nil
	}
	before := c.moved
	for i := range w.calls {
		w.done.Go(func() {
			if before != nil {
				before.freed.Wait()
			}
			w.calls[i].do(ctx, c.r.Base, deadline)
		})
	}
	return w
}

// landed takes what was staged: the items of which there is something to transfer go to c.ready. It returns the others, which
// have no error.
func (c *Call) landed(ctx context.Context, pending []*Item) (rest []*Item) {
	c.moving = c.staging
	c.moving.land()
	rest = pending[:0]
	for _, it := range pending {
		ready, err := false, error(nil)
		for i := range it.steps {
			s := &it.steps[i]
			ready, err = ready || s.state == stepStaged, cmp.Or(err, s.err)
		}
		switch {
		case err == nil && ready:
			c.ready = append(c.ready, it)
		case err == nil:
			rest = append(rest, it)
		case ctx.Err() != nil:
			it.Err = errs.Wrap(errs.TransferFail, "store: get "+store.Quote(it.Key), err)
		default:
			it.last = err
			c.r.Metrics.TierFailures.Inc()
			if c.r.nextReplica(it) {
				rest = append(rest, it)
			}
		}
	}
	return rest
}

// abandon ends the staging of what no item needs any more.
func (c *Call) abandon() {
	if c.staging == nil {
		return
	}
	c.staging.done.Wait()
	c.moving, c.staging = c.staging, nil
	c.free()
}

// free has the nodes free what they staged for the last transfer.
func (c *Call) free() {
	if c.moving == nil {
		return
	}
	for i := range c.moving.calls {
		c.r.releases.free(c.r.Base, &c.moving.calls[i], &c.moving.freed)
	}
	c.moved, c.moving = c.moving, nil
}

// outlived records that bytes of a replica arrived after the node may have freed them, and returns whether to read the item
// again: these bytes once from the same replica, then all from another.
func (r *Reader) outlived(it *Item) bool {
	r.Metrics.TierFailures.Inc()
	if !it.late {
		it.late = true
		for s := range it.staged {
			s.state = stepWanted
		}
		return true
	}
	it.last = errs.New(errs.LeaseExpired, "storage tier at "+it.replica().Endpoint, "reading took longer than the node keeps what it stages")
	return r.nextReplica(it)
}
