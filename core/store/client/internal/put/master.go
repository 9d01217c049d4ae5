package put

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Start asks for space and returns the items that got some, which is valid until the next Start.
func (c *Call) Start(ctx context.Context, items []*Item, cfg model.ReplicateConfig) []*Item {
	c.want = c.want[:0]
	for _, it := range items {
		c.want = append(c.want, model.PutItem{Key: it.key, Size: it.size, Group: it.group})
	}
	c.w.Session.KeepAlive(ctx)
	c.right = c.w.Session.WriteRight()
	name := "BatchPutStart"
	if cfg.Upsert {
		name = "BatchUpsertStart"
	}
	got, err := session.Ask(ctx, c.w.Session, name, func(ctx context.Context) ([]model.Result[[]model.Replica], error) {
		return c.w.Master.PutStart(ctx, c.w.Caller, c.want, cfg, &c.answer)
	})
	err = base.Complete(err, len(got), len(items))
	c.started = c.started[:0]
	for i, it := range items {
		e := err
		if e == nil {
			e = got[i].Err
		}
		switch {
		case err == nil && errs.Is(e, errs.ObjectAlreadyExists):
			it.Err, it.Existed = nil, true
			c.w.Metrics.Existed.Inc()
		case e != nil:
			it.Err = errs.Wrap(errs.CodeOf(e), "store: put "+store.Quote(it.key), e)
			it.unconfirmed = errs.CodeOf(e) == errs.UnavailableInCurrentStatus && errs.ClassOf(e) == errs.ClassTransientPeer
		default:
			it.Err, it.Replicas = nil, got[i].Value
			c.started = append(c.started, it)
		}
	}
	return c.started
}

// End makes objects readable whose bytes are in place. With a limit other than zero the call goes on
// until then, even though the context ends.
func (c *Call) End(ctx context.Context, items []*Item, limit time.Time) {
	c.done, c.ends = c.done[:0], c.ends[:0]
	for _, it := range items {
		if it.Err == nil {
			c.done = append(c.done, it)
			c.ends = append(c.ends, model.EndItem{Key: it.key, Checksum: it.checksum, Grains: it.grains, Put: it.put()})
		}
	}
	if len(c.done) == 0 {
		return
	}
	got, err := session.AskUntil(ctx, c.w.Session, "BatchPutEnd", limit, func(ctx context.Context) ([]error, error) {
		return c.w.Master.PutEnd(ctx, c.w.Caller, c.ends, c.ended)
	})
	if err == nil {
		c.ended = got
	}
	err = base.Complete(err, len(got), len(c.done))
	for i, it := range c.done {
		e := err
		if e == nil {
			e = got[i]
		}
		if it.decided = e != nil; it.decided {
			it.Err = errs.Wrap(errs.CodeOf(e), "store: end put "+store.Quote(it.key), e)
		}
	}
}

// Revoke revokes the puts of items that failed. It returns the items that may be put in other memory:
// their node is gone, or the master quarantines their space now, so that late writes of a peer damage
// no other object.
func (w *Writer) Revoke(ctx context.Context, items []*Item) (movable []*Item) {
	var failed []*Item
	var puts []model.RevokeItem
	for _, it := range items {
		switch {
		case it.Err != nil && !it.decided:
			failed = append(failed, it)
			puts = append(puts, it.Revocation())
		case it.Err != nil:
			w.Metrics.Unrevoked.Inc()
		}
	}
	if len(puts) == 0 {
		return nil
	}
	got, err := w.RevokePuts(ctx, puts)
	if err != nil {
		w.Log.Warn("failed puts could not be revoked, the master releases them by its timeout", "keys", len(puts), "error", err)
	}
	for i, it := range failed {
		switch {
		case !it.indeterminate && !it.nodeGone:
		case err == nil && got[i] == nil:
			movable = append(movable, it)
		case it.indeterminate:
			w.Metrics.Unrevoked.Inc()
		}
	}
	return movable
}

// RevokePuts asks the master to revoke puts.
func (w *Writer) RevokePuts(ctx context.Context, puts []model.RevokeItem) ([]error, error) {
	got, err := session.Ask(ctx, w.Session, "BatchPutRevoke", func(ctx context.Context) ([]error, error) {
		return w.Master.PutRevoke(ctx, w.Caller, puts)
	})
	return got, base.Complete(err, len(got), len(puts))
}
