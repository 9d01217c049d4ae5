package store

import (
	"slices"
	"sync"
	"time"
)

// renewer keeps the leases of objects that are being read, where that takes long: it opens
// sessions for them in the table of the client, as if the caller had. A read that ends within a
// third of its lease costs it nothing but a timer.
type renewer struct {
	user  Layers // whose sessions they are
	timer *time.Timer

	mu    sync.Mutex
	items []*readItem // in flight; nil outside of begin and end
	held  []*readItem // of items, those that it has opened sessions for
}

// begin looks after items until end. They do not change meanwhile.
func (r *renewer) begin(c *Client, items []*readItem) {
	first := noLease
	now := time.Now()
	for _, it := range items {
		if it.held == nil && it.obj.LeaseTTL > 0 {
			first = min(first, it.expires.Sub(now)-it.obj.LeaseTTL+it.obj.LeaseTTL/renewAt)
		}
	}
	if first == noLease {
		return
	}
	r.mu.Lock()
	r.items = items
	r.mu.Unlock()
	if r.timer == nil {
		r.user.c = c
		r.timer = time.AfterFunc(first, r.open)
		return
	}
	r.timer.Reset(first)
}

// open opens sessions for what is still in flight.
func (r *renewer) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.user.c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	for _, it := range r.items {
		if it.held != nil || it.obj.LeaseTTL <= 0 {
			continue
		}
		k := layerKey{&r.user, it.key}
		h := t.gets[k]
		if h == nil {
			h = &heldObject{obj: it.obj, asked: it.expires.Add(-it.obj.LeaseTTL), used: time.Now()}
			h.obj.Replicas = slices.Clone(it.obj.Replicas)
			h.lasting = true
			t.gets[k] = h
			r.user.open++
			t.watch(t.dueGet(h))
		}
		it.held, it.lapses = h, h.lapses
		r.held = append(r.held, it)
	}
}

// end closes the sessions. Afterwards the items know how long their leases were good.
func (r *renewer) end() {
	if r.timer == nil {
		return
	}
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = nil
	if len(r.held) == 0 {
		return
	}
	t := r.user.c.table
	for _, it := range r.held {
		it.expires = t.until(it)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, it := range r.held {
		t.dropGet(layerKey{&r.user, it.key})
		it.held, r.held[i] = nil, nil
	}
	r.held = r.held[:0]
}
