package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// A lease is renewed when a third of it is over, which leaves two more attempts. With the
// first that is due go those that have had half of that time.
const (
	renewAt   = 3
	renewWith = 6
)

// keeperPause is the least time between two looks at the sessions.
const keeperPause = 10 * time.Millisecond

// errReplaced is why a lease is not renewed.
var errReplaced = errors.New("the key has another value by now")

// keep looks after the sessions until there are none.
func (t *layerTable) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for t.ctx.Err() == nil {
		t.renew(t.dueGets(time.Now()))
		t.expirePuts(time.Now())
		wait, any := t.pause()
		if !any {
			return
		}
		timer.Reset(wait)
		select {
		case <-t.ctx.Done():
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// pause says how long there is nothing to do; false, and the keeper is over, when there are
// no sessions.
func (t *layerTable) pause() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.gets)+len(t.puts) == 0 {
		t.running = false
		return 0, false
	}
	now := time.Now()
	t.next = now.Add(t.c.cfg.Layers.IdleTimeout)
	for _, h := range t.gets {
		if due := t.dueGet(h); due.Before(t.next) {
			t.next = due
		}
	}
	for _, p := range t.puts {
		if due := t.duePut(p, now); due.Before(t.next) {
			t.next = due
		}
	}
	return max(t.next.Sub(now), keeperPause), true
}

// dueGet is when a session for reading is to be looked at. t.mu is held.
func (t *layerTable) dueGet(h *heldObject) time.Time {
	due := h.used.Add(t.c.cfg.Layers.IdleTimeout)
	if h.lasting {
		due = time.Now().Add(t.c.cfg.Layers.IdleTimeout)
	}
	if at := h.tried.Add(h.obj.LeaseTTL / renewAt); renewable(h) && at.Before(due) {
		due = at
	}
	return due
}

func renewable(h *heldObject) bool { return !h.replaced && h.obj.LeaseTTL > 0 }

// renewal is a session whose lease is to be renewed.
type renewal struct {
	key  model.Key
	held *heldObject
}

// dueGets ends the sessions that were not used, and returns those to be renewed, if one is due.
func (t *layerTable) dueGets(now time.Time) []renewal {
	t.mu.Lock()
	defer t.mu.Unlock()
	var with []renewal
	var last model.Key
	due, dropped := false, 0
	for k, h := range t.gets {
		switch {
		case !h.lasting && now.Sub(h.used) >= t.c.cfg.Layers.IdleTimeout:
			t.dropGet(k)
			last, dropped = k.key, dropped+1
		case renewable(h) && now.Sub(h.tried) >= h.obj.LeaseTTL/renewWith:
			with = append(with, renewal{k.key, h})
			due = due || now.Sub(h.tried) >= h.obj.LeaseTTL/renewAt
		}
	}
	if dropped > 0 {
		t.c.log.Warn("sessions for reading were ended because they were not used", "sessions", dropped, "after", t.c.cfg.Layers.IdleTimeout, "key", last)
	}
	if !due {
		return nil
	}
	for i := range with {
		with[i].held.tried = now
	}
	return with
}

// renew asks the master for leases. What gets none is asked for again as long as it is used.
func (t *layerTable) renew(all []renewal) {
	inBatches(len(all), t.c.cfg.MaxBatch, func(lo, hi int) {
		keys := make([]model.Key, hi-lo)
		for i, r := range all[lo:hi] {
			keys[i] = r.key
		}
		ctx, cancel := context.WithTimeout(t.ctx, t.c.cfg.FinishTimeout)
		got, err := t.c.locateAgain(ctx, keys)
		cancel()
		if err == nil && len(got) != len(keys) {
			err = shortAnswer(len(got), len(keys))
		}
		answered := time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		for i, r := range all[lo:hi] {
			switch {
			case err != nil:
				r.held.why = err
			case got[i].Err != nil:
				r.held.why = got[i].Err
			case !r.held.renewed(&got[i].Value.obj, got[i].Value.asked, answered):
				r.held.why, r.held.replaced = errReplaced, true
			}
		}
	})
}

// expirePuts gives up the puts that took too long.
func (t *layerTable) expirePuts(now time.Time) {
	byUser := map[*Layers][]model.Key{}
	t.mu.Lock()
	for k, p := range t.puts {
		if !t.duePut(p, now).After(now) {
			byUser[k.user] = append(byUser[k.user], k.key)
		}
	}
	t.mu.Unlock()
	for user, keys := range byUser {
		ctx, cancel := context.WithTimeout(t.ctx, t.c.cfg.FinishTimeout)
		failed := user.revokeAll(ctx, keys)
		cancel()
		t.c.log.Warn("puts were revoked whose sessions were not ended in time", "sessions", len(keys), "after", t.c.cfg.Layers.PutTimeout, "key", keys[0], "error", failed)
	}
}

// duePut is when a session for writing is given up. One that a call works on is looked at
// again a little later. t.mu is held.
func (t *layerTable) duePut(p *openPut, now time.Time) time.Time {
	due := p.started.Add(t.c.cfg.Layers.PutTimeout)
	if (p.busy || p.writing > 0) && due.Before(now.Add(time.Second)) {
		due = now.Add(time.Second)
	}
	return due
}
