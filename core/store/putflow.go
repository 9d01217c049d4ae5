package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// putWaiting has items put, and those that found no room again until AllocWait is over.
func (c *Client) putWaiting(ctx context.Context, items []*putItem, put func([]*putItem)) {
	end := time.Now().Add(c.cfg.AllocWait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		put(items)
		var full []*putItem
		for _, it := range items {
			if errs.Is(it.err, errs.NoAvailableHandle) {
				full = append(full, it)
			}
		}
		if len(full) == 0 || !time.Now().Add(pause).Before(end) {
			c.metrics.noSpace.Add(float64(len(full)))
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		items = full
	}
}

// putOnce takes items through start, transfer and end.
func (c *Client) putOnce(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) {
	started := c.putStart(ctx, items, cfg)
	if len(started) == 0 {
		return
	}
	c.write(ctx, started)
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	c.putEnd(ctx, started)
	c.putRevoke(ctx, started)
}

// putStart asks for room and returns the items that got some.
func (c *Client) putStart(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) []*putItem {
	want := make([]model.PutItem, len(items))
	for i, it := range items {
		want[i] = model.PutItem{Key: it.key, Size: it.size, Group: it.group}
	}
	name := "BatchPutStart"
	if cfg.Upsert {
		name = "BatchUpsertStart"
	}
	got, err := ask(ctx, c.session, name, func(ctx context.Context) ([]model.Result[[]model.Replica], error) {
		return c.master.PutStart(ctx, c.caller, want, cfg)
	})
	if err == nil && len(got) != len(items) {
		err = shortAnswer(len(got), len(items))
	}
	started := make([]*putItem, 0, len(items))
	for i, it := range items {
		switch {
		case err != nil:
			it.err = errs.Wrap(errs.CodeOf(err), "store: put "+quote(it.key), err)
		case errs.Is(got[i].Err, errs.ObjectAlreadyExists):
			it.err, it.existed = nil, true
			c.metrics.existed.Inc()
		case got[i].Err != nil:
			it.err = errs.Wrap(errs.CodeOf(got[i].Err), "store: put "+quote(it.key), got[i].Err)
		default:
			it.err, it.replicas = nil, got[i].Value
			started = append(started, it)
		}
	}
	return started
}

// putEnd makes the objects readable whose bytes are in place.
func (c *Client) putEnd(ctx context.Context, items []*putItem) {
	var done []*putItem
	var ends []model.EndItem
	for _, it := range items {
		if it.err == nil {
			done = append(done, it)
			ends = append(ends, model.EndItem{Key: it.key, Checksum: it.sum, Put: it.put()})
		}
	}
	if len(done) == 0 {
		return
	}
	got, err := ask(ctx, c.session, "BatchPutEnd", func(ctx context.Context) ([]error, error) {
		return c.master.PutEnd(ctx, c.caller, ends)
	})
	if err == nil && len(got) != len(done) {
		err = shortAnswer(len(got), len(done))
	}
	for i, it := range done {
		e := err
		if e == nil {
			e = got[i]
		}
		it.err = errs.Wrap(errs.CodeOf(e), "store: end put "+quote(it.key), e)
		// Not to be revoked: the master has decided, or does not answer.
		it.poisoned = it.poisoned || e != nil
	}
}

// putRevoke gives back the room of the puts that failed. Where a peer may still write it
// is left to the master's timeout instead, which is made for slow writers.
func (c *Client) putRevoke(ctx context.Context, items []*putItem) {
	var given []model.RevokeItem
	for _, it := range items {
		switch {
		case it.err != nil && !it.poisoned:
			given = append(given, model.RevokeItem{Key: it.key, Put: it.put()})
		case it.err != nil:
			c.metrics.unrevoked.Inc()
		}
	}
	if len(given) == 0 {
		return
	}
	if _, err := c.revoke(ctx, given); err != nil {
		c.log.Warn("failed puts could not be revoked, the master releases them by its timeout", "keys", len(given), "error", err)
	}
}

// revoke tells the master that puts are given up, and answers for each.
func (c *Client) revoke(ctx context.Context, given []model.RevokeItem) ([]error, error) {
	got, err := ask(ctx, c.session, "BatchPutRevoke", func(ctx context.Context) ([]error, error) {
		return c.master.PutRevoke(ctx, c.caller, given)
	})
	if err == nil && len(got) != len(given) {
		err = shortAnswer(len(got), len(given))
	}
	return got, err
}
