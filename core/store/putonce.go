package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// putOnce takes items through start, transfer and end. Those whose transfers end in doubt,
// as when the process of a transport dies, it puts once more from the start, in other room,
// within the same time for the transfers.
func (c *Client) putOnce(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) {
	held := c.attempt(ctx, items, cfg)
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
	c.attempt(ctx, again, cfg)
}

// attempt returns the items that failed and whose room is in quarantine.
func (c *Client) attempt(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) (held []*putItem) {
	started := c.putStart(ctx, items, cfg)
	if len(started) == 0 {
		return nil
	}
	c.write(ctx, started)
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	c.putEnd(ctx, started)
	return c.putRevoke(ctx, started)
}
