package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
)

// dropDamaged removes the objects of which every copy was read and had wrong bytes. They
// can never be read again, and while they exist no client can put them again. A copy that
// could not be reached may still be good, so its object stays.
func (c *Client) dropDamaged(ctx context.Context, items []*readItem) {
	var keys []model.Key
	for _, it := range items {
		if n := len(it.obj.Replicas); !it.ok && n > 0 && it.damaged == n {
			keys = append(keys, it.key)
		}
	}
	if len(keys) == 0 {
		return
	}
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	answers, err := ask(ctx, c.session, "BatchRemove", func(ctx context.Context) ([]error, error) {
		return c.master.Remove(ctx, c.caller, keys, true)
	})
	removed := 0
	for _, e := range answers {
		if e == nil {
			removed++
		}
	}
	c.metrics.dropped.Add(float64(removed))
	c.log.Warn("damaged objects were removed, so that they can be put again", "objects", len(keys), "removed", removed, "error", err)
}
