package store

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// putOnce takes items through start, transfer and end. Those whose transfers end in doubt,
// as when the process of a transport dies, it puts once more from the start, in other room,
// within the same time for the transfers.
func (c *Client) putOnce(ctx context.Context, w *writing, items []*putItem, cfg model.ReplicateConfig) {
	held := c.attempt(ctx, w, items, cfg)
	var again []*putItem
	for _, it := range held {
		if !it.repeated && ctx.Err() == nil && time.Now().Before(it.deadline) {
			again = append(again, it)
		}
	}
	if len(again) == 0 {
		return
	}
	c.log.Warn("puts are repeated in other room: whether their bytes arrived is in doubt", "keys", len(again), "error", again[0].err)
	c.metrics.repeated.Add(float64(len(again)))
	for _, it := range again {
		it.repeated, it.doubted, it.replicas = true, false, nil
	}
	c.attempt(ctx, w, again, cfg)
}

// attempt returns the items that failed and whose room is in quarantine.
func (c *Client) attempt(ctx context.Context, w *writing, items []*putItem, cfg model.ReplicateConfig) (held []*putItem) {
	started := c.putStart(ctx, w, items, cfg)
	if len(started) == 0 {
		return nil
	}
	c.write(ctx, w, started)
	limit := time.Now().Add(c.cfg.FinishTimeout)
	if c.putEnd(ctx, w, started, limit); !slices.ContainsFunc(started, (*putItem).failed) {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	return c.putRevoke(ctx, started)
}
