package store

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// repeats bounds the attempts at a put after the first. The master may name a node that is gone
// a few times more, until enough clients have told it.
const repeats = 8

// putOnce takes items through start, transfer and end. Those whose transfers are indeterminate, as
// when the process of a transport dies, it retries from the start, in a new allocation; those
// that fail because a node is gone, a few times. All attempts are within the same time for the
// transfers.
func (c *Client) putOnce(ctx context.Context, w *writing, items []*putItem, cfg model.ReplicateConfig) {
	for try := 0; len(items) > 0; try++ {
		held := c.attempt(ctx, w, items, cfg)
		var again []*putItem
		for _, it := range held {
			if try < repeats && !(it.doubted && it.repeated) && ctx.Err() == nil && time.Now().Before(it.deadline) {
				again = append(again, it)
			}
		}
		if len(again) > 0 {
			c.log.Warn("the client repeats puts elsewhere: it is in doubt whether their bytes arrived, or the node is gone",
				"keys", len(again), "attempt", try+2, "error", again[0].err)
			c.metrics.repeated.Add(float64(len(again)))
		}
		for _, it := range again {
			it.repeated = it.repeated || it.doubted
			it.again, it.doubted, it.lost, it.replicas = true, false, false, nil
		}
		items = again
	}
}

// attempt returns the items that failed and may be put elsewhere.
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
