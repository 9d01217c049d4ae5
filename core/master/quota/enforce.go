package quota

import (
	"maps"
	"math/bits"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// SetCapacity says how many bytes the pool has. Quotas that add up to more are cut in
// proportion.
func (l *Usage) SetCapacity(bytes uint64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.capacity, l.limited = bytes, true
	rescale(*l.accounts.Load(), bytes, true)
}

// Apply puts a policy in force. Tenants that it does not name may write no more.
func (l *Usage) Apply(p Policy) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(p)
}

func (l *Usage) apply(p Policy) {
	old := *l.accounts.Load()
	next := make(map[model.Tenant]*account, len(p.Tenants))
	var open []*account
	for _, e := range p.Tenants {
		a := old[e.Name]
		if a == nil {
			a = &account{name: e.Name}
		}
		a.requested.Store(e.Quota)
		next[a.name] = a
		open = append(open, a)
	}
	for t, a := range old {
		if next[t] != nil {
			continue
		}
		if a.state.Or(closed)&^closed > 0 {
			a.requested.Store(0)
			next[t] = a
		}
	}
	rescale(next, l.capacity, l.limited)
	for _, a := range open {
		a.state.And(^uint64(closed))
	}
	l.accounts.Store(&next)
}

// rescale computes the effective quotas.
func rescale(accounts map[model.Tenant]*account, capacity uint64, limited bool) {
	high, low := sum(accounts)
	for _, a := range accounts {
		effective := a.requested.Load()
		if limited && (high > 0 || low > capacity) {
			effective = share(effective, capacity, high, low)
		}
		a.effective.Store(effective)
	}
}

func sum(accounts map[model.Tenant]*account) (high, low uint64) {
	for _, a := range accounts {
		var carry uint64
		low, carry = bits.Add64(low, a.requested.Load(), 0)
		high += carry
	}
	return high, low
}

// close takes a tenant out of the policy if it holds nothing. TenantNotRegistered,
// TenantNotEmpty.
func (l *Usage) close(t model.Tenant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	const op = "tenant quota: delete"
	a := l.find(t)
	if a == nil || a.state.Load() == closed {
		return errs.New(errs.TenantNotRegistered, op, "tenant %q is not in the quota policy and has no objects", name(t))
	}
	if !a.state.CompareAndSwap(0, closed) {
		return errs.WithHint(errs.New(errs.TenantNotEmpty, op, "the objects of tenant %q take %d bytes", a.name, a.charged()),
			"remove them first, for example with POST /api/v1/remove_all?tenant_id=")
	}
	next := maps.Clone(*l.accounts.Load())
	delete(next, a.name)
	rescale(next, l.capacity, l.limited)
	l.accounts.Store(&next)
	return nil
}

// share returns requested * capacity / sum, where sum (128 bits) is larger than capacity
// and at least requested; rounded down.
func share(requested, capacity, sumHigh, sumLow uint64) uint64 {
	if k := bits.Len64(sumHigh); k > 0 {
		requested >>= k
		sumLow = (sumLow>>k | sumHigh<<(64-k))
		if sumLow++; sumLow == 0 {
			sumLow--
		}
	}
	high, low := bits.Mul64(requested, capacity)
	q, _ := bits.Div64(high, low, sumLow)
	return q
}
