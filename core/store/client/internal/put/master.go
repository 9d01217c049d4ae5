package put

import (
	"context"
	"errors"
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
	began := time.Now()
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
			it.Err, it.Replicas, it.started = nil, got[i].Value, began
			if it.Err = c.w.begin(it); it.Err == nil {
				c.started = append(c.started, it)
			}
		}
	}
	return c.started
}

// begin counts a put as in progress, until Over.
func (w *Writer) begin(it *Item) error {
	if put := it.put(); put != 0 {
		if it.epoch = model.PutEpoch(put); !w.Session.PutBegins(it.epoch) {
			it.epoch, it.Replicas = 0, nil
			return errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.UnavailableInCurrentStatus, "store: put "+store.Quote(it.key),
				"a master answered that another one has followed since"))
		}
	}
	return nil
}

// Over says that nothing writes for the puts any more, apart from peers whose transfers are indeterminate. Repeatable.
func (w *Writer) Over(items ...*Item) {
	for _, it := range items {
		if it.epoch != 0 {
			w.Session.PutOver(it.epoch, it.indeterminate)
			it.epoch = 0
		}
	}
}

const (
	// endPatience bounds how long the end of a put is repeated while the master is away, leastEndPause and
	// mostEndPause the pause before each time.
	endPatience                 = 5 * time.Second
	leastEndPause, mostEndPause = 10 * time.Millisecond, 100 * time.Millisecond
)

// End makes objects readable whose bytes are in place. With a limit other than zero the call goes on
// until then, even though the context ends. If the master goes away meanwhile, End repeats the call at its
// successor for a while, which knows the puts once it has adopted the ledgers; to end a put twice is a
// success.
func (c *Call) End(ctx context.Context, items []*Item, limit time.Time) {
	until := time.Now().Add(endPatience)
	if !limit.IsZero() && limit.Before(until) {
		until = limit
	}
	gone := c.end(ctx, items, limit)
	for pause, repeated := leastEndPause, false; ; pause = min(2*pause, mostEndPause) {
		again := c.done[:0]
		for _, it := range c.done {
			if it.Err != nil && (gone || away(it.Err) || errs.Is(it.Err, errs.ObjectNotFound) && (repeated || c.w.replaced(it))) {
				again = append(again, it)
			}
		}
		if len(again) == 0 || ctx.Err() != nil || !time.Now().Add(pause).Before(until) {
			return
		}
		if !repeated {
			repeated = true
			c.w.Log.Warn("the master went away before puts had ended, the client ends them at its successor", "keys", len(again), "error", again[0].Err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		for _, it := range again {
			it.Reopen()
		}
		gone = c.end(ctx, again, limit)
	}
}

// replaced reports whether another master has come since a put began, and may not have adopted it yet.
func (w *Writer) replaced(it *Item) bool {
	since := w.Session.MasterSince()
	return since.After(it.started) && time.Since(since) < endPatience
}

// end is End without a repetition. done has the items that it was about. gone: no master has answered that
// leads.
func (c *Call) end(ctx context.Context, items []*Item, limit time.Time) (gone bool) {
	c.done, c.ends = c.done[:0], c.ends[:0]
	for _, it := range items {
		if it.Err == nil {
			c.done = append(c.done, it)
			c.ends = append(c.ends, model.EndItem{Key: it.key, Checksum: c.w.kind(it.checksum), Grains: it.grains, Put: it.put()})
		}
	}
	if len(c.done) == 0 {
		return false
	}
	got, err := session.AskUntil(ctx, c.w.Session, "BatchPutEnd", limit, func(ctx context.Context) ([]error, error) {
		return c.w.Master.PutEnd(ctx, c.w.Caller, c.ends, c.ended)
	})
	if err == nil {
		c.ended = got
	}
	gone = away(err)
	err = base.Complete(err, len(got), len(c.done))
	c.w.ends.mu.Lock()
	defer c.w.ends.mu.Unlock()
	for i, it := range c.done {
		e := err
		if e == nil {
			e = got[i]
		}
		if it.decided = e != nil; it.decided {
			it.Err = errs.Wrap(errs.CodeOf(e), "store: end put "+store.Quote(it.key), e)
		} else {
			c.w.ends.add(&c.ends[i])
		}
	}
	return gone
}

// away reports whether an error may be due to a master that is being replaced.
func away(err error) bool {
	return !errors.Is(err, errs.ErrForeign) && (session.Unanswered(err) || errs.Is(err, errs.UnavailableInCurrentStatus))
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
		case err == nil && (got[i] == nil || !it.indeterminate && errs.Is(got[i], errs.ObjectNotFound)): // Or a new master does not know it.
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
