package get

import (
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
)

// renewer keeps the leases of objects while a long read lasts. A read that ends within a third of its
// lease only starts a timer.
type renewer struct {
	user   lease.User
	leases *lease.Table
	timer  *time.Timer

	mu    sync.Mutex
	items []*Item // in flight, between begin and end
	held  []*Item // those whose leases the renewer holds
}

// begin keeps the leases of items until end. Only the renewer changes them meanwhile.
func (r *renewer) begin(t *lease.Table, items []*Item) {
	first := noLease
	now := boottime.Time()
	for _, it := range items {
		if ttl := it.object.LeaseTTL; it.lease == nil && ttl > 0 {
			first = min(first, it.expires.Sub(now)-ttl+ttl/lease.RenewAt)
		}
	}
	if first == noLease {
		return
	}
	r.mu.Lock()
	r.items = items
	r.mu.Unlock()
	if r.timer == nil {
		r.leases = t
		r.timer = time.AfterFunc(first, r.hold)
		return
	}
	r.timer.Reset(first)
}

// hold holds the leases of the items in flight.
func (r *renewer) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range r.items {
		if it.lease != nil || it.object.LeaseTTL <= 0 {
			continue
		}
		if it.lease = r.leases.HoldForRead(&r.user, it.Key, &it.object, it.expires.Add(-it.object.LeaseTTL)); it.lease != nil {
			r.held = append(r.held, it)
		}
	}
}

// end drops the leases and sets the times when the items' leases ended.
func (r *renewer) end() {
	if r.timer == nil {
		return
	}
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = nil
	for i, it := range r.held {
		it.expires = r.leases.Until(it.lease, it.replica(), it.expires)
		r.leases.Drop(&r.user, it.Key)
		it.lease, r.held[i] = nil, nil
	}
	r.held = r.held[:0]
}
