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
			if errs.Is(it.err, errs.NoAvailableHandle) && errs.ClassOf(it.err).Retryable() {
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

// putStart asks for room and returns the items that got some, in w.started. The places that
// they name are good until w is asked with again.
func (c *Client) putStart(ctx context.Context, w *writing, items []*putItem, cfg model.ReplicateConfig) []*putItem {
	w.want = w.want[:0]
	for _, it := range items {
		w.want = append(w.want, model.PutItem{Key: it.key, Size: it.size, Group: it.group})
	}
	name := "BatchPutStart"
	if cfg.Upsert {
		name = "BatchUpsertStart"
	}
	got, err := ask(ctx, c.session, name, func(ctx context.Context) ([]model.Result[[]model.Replica], error) {
		return c.master.PutStart(ctx, c.caller, w.want, cfg, &w.answer)
	})
	if err == nil && len(got) != len(items) {
		err = shortAnswer(len(got), len(items))
	}
	w.started = w.started[:0]
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
			w.started = append(w.started, it)
		}
	}
	return w.started
}

// putEnd makes the objects readable whose bytes are in place. With a limit it goes on until
// then, whatever becomes of the context.
func (c *Client) putEnd(ctx context.Context, w *writing, items []*putItem, limit time.Time) {
	w.done, w.ends = w.done[:0], w.ends[:0]
	for _, it := range items {
		if it.err == nil {
			w.done = append(w.done, it)
			w.ends = append(w.ends, model.EndItem{Key: it.key, Checksum: it.sum, Put: it.put()})
		}
	}
	if len(w.done) == 0 {
		return
	}
	got, err := finish(ctx, c.session, "BatchPutEnd", limit, func(ctx context.Context) ([]error, error) {
		return c.master.PutEnd(ctx, c.caller, w.ends, w.ended)
	})
	if err == nil {
		w.ended = got
	}
	if err == nil && len(got) != len(w.done) {
		err = shortAnswer(len(got), len(w.done))
	}
	for i, it := range w.done {
		e := err
		if e == nil {
			e = got[i]
		}
		if it.decided = e != nil; it.decided {
			it.err = errs.Wrap(errs.CodeOf(e), "store: end put "+quote(it.key), e)
		}
	}
}

// putRevoke gives back the room of the puts that failed. It returns those that may be put in
// other memory: the node is gone, or the master holds the room in quarantine now, so that whatever
// a peer still writes there harms no other object.
func (c *Client) putRevoke(ctx context.Context, items []*putItem) (held []*putItem) {
	var failed []*putItem
	var given []model.RevokeItem
	for _, it := range items {
		switch {
		case it.err != nil && !it.decided:
			failed = append(failed, it)
			given = append(given, it.revoked())
		case it.err != nil:
			c.metrics.unrevoked.Inc()
		}
	}
	if len(given) == 0 {
		return nil
	}
	got, err := c.revoke(ctx, given)
	if err != nil {
		c.log.Warn("failed puts could not be revoked, the master releases them by its timeout", "keys", len(given), "error", err)
	}
	for i, it := range failed {
		switch {
		case !it.doubted && !it.lost:
		case err == nil && got[i] == nil:
			held = append(held, it)
		case it.doubted:
			c.metrics.unrevoked.Inc()
		}
	}
	return held
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
