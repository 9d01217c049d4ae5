package lease

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
)

const (
	// RenewAt is the part of a lease, a third, after which the table renews it. That leaves two more
	// attempts.
	RenewAt = 3
	// renewWith is the part of a lease, a sixth, after which the table renews it together with the
	// first one that is due.
	renewWith = 6
)

// errReplaced is why a lease is not renewed.
var errReplaced = errors.New("the key has another value by now")

// run renews leases that are due and returns when the next one is.
func (t *Table) run(ctx context.Context) (next time.Time) {
	t.renew(ctx, t.collect(time.Now()))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.held {
		if due := t.due(h); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// due returns when the table has to check a lease. The caller holds mu.
func (t *Table) due(h *Held) time.Time {
	due := h.used.Add(t.b.Config.Layers.IdleTimeout)
	if h.lasting {
		due = time.Now().Add(t.b.Config.Layers.IdleTimeout)
	}
	if at := h.tried.Add(h.object.LeaseTTL / RenewAt); h.renewable() && at.Before(due) {
		due = at
	}
	return due
}

// renewal is a lease to renew.
type renewal struct {
	key  model.Key
	held *Held
}

// collect drops leases that were not used, and returns the leases to renew if one is due.
func (t *Table) collect(now time.Time) []renewal {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.b.Config.Layers.IdleTimeout
	var with []renewal
	var last model.Key
	due, dropped := false, 0
	for k, h := range t.held {
		switch {
		case !h.lasting && now.Sub(h.used) >= idle:
			t.drop(k)
			last, dropped = k.key, dropped+1
		case h.renewable() && now.Sub(h.tried) >= h.object.LeaseTTL/renewWith:
			with = append(with, renewal{k.key, h})
			due = due || now.Sub(h.tried) >= h.object.LeaseTTL/RenewAt
		}
	}
	if dropped > 0 {
		t.b.Log.Warn("sessions for reading were ended because they were not used", "sessions", dropped, "after", idle, "key", last)
	}
	if !due {
		return nil
	}
	for i := range with {
		with[i].held.tried = now
	}
	return with
}

// renew asks the master for leases. The table asks again for those that it did not get, as long as
// they are used.
func (t *Table) renew(ctx context.Context, all []renewal) {
	base.InBatches(len(all), t.b.Config.MaxBatch, func(lo, hi int) {
		keys := make([]model.Key, hi-lo)
		for i, r := range all[lo:hi] {
			keys[i] = r.key
		}
		ctx, cancel := context.WithTimeout(ctx, t.b.Config.FinishTimeout)
		got, err := t.locate(ctx, keys, nil)
		cancel()
		answered := time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		for i, r := range all[lo:hi] {
			switch {
			case err != nil:
				r.held.why = err
			case got[i].Err != nil:
				r.held.why = got[i].Err
			case !r.held.renewed(&got[i].Value.Object, got[i].Value.Asked, answered):
				r.held.why, r.held.replaced = errReplaced, true
			}
		}
	})
}
