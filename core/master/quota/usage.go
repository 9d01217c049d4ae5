package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Usage keeps what every tenant may use and uses. It is safe for concurrent use; charging
// and refunding take no lock. An empty tenant is model.DefaultTenant. A nil Usage is off:
// it charges nothing, refuses nothing and knows no tenant.
type Usage struct {
	accounts atomic.Pointer[map[model.Tenant]*account] // replaced, never changed

	mu       sync.Mutex // held while accounts is replaced
	capacity uint64
	limited  bool // capacity is known
}

// NewUsage returns the usage of no tenants, whose capacity is not known yet: quotas are
// effective in full until SetCapacity.
func NewUsage() *Usage {
	l := &Usage{}
	l.accounts.Store(&map[model.Tenant]*account{})
	return l
}

// Enabled reports whether tenants have quotas at all.
func (l *Usage) Enabled() bool { return l != nil }

// Charge notes that a tenant takes so many bytes. TenantQuotaExceeded, TenantNotRegistered.
func (l *Usage) Charge(t model.Tenant, n uint64) error {
	one := [1]uint64{n}
	_, err := l.ChargeBatch(t, one[:])
	return err
}

// ChargeBatch charges the longest prefix of sizes that fits, in one step, and returns how
// many they are. The error says why they are not all, and is nil when they are.
func (l *Usage) ChargeBatch(t model.Tenant, sizes []uint64) (int, error) {
	if l == nil {
		return len(sizes), nil
	}
	a := l.find(t)
	if a == nil {
		return 0, notRegistered(name(t))
	}
	return a.charge(sizes)
}

// ChargeAnyway is Charge without a limit, for what the operator and not the tenant asked
// for, such as the target of a move. It takes a lock.
func (l *Usage) ChargeAnyway(t model.Tenant, n uint64) {
	if l == nil || n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.find(t)
	if a == nil {
		a = &account{name: name(t)}
		a.state.Store(closed)
		next := maps.Clone(*l.accounts.Load())
		next[a.name] = a
		l.accounts.Store(&next)
	}
	a.state.Add(n)
}

// Refund notes that so many bytes of what a tenant was charged are free again.
func (l *Usage) Refund(t model.Tenant, n uint64) {
	if l == nil || n == 0 {
		return
	}
	if a := l.find(t); a != nil {
		a.refund(n)
	}
}

// Short returns how many bytes of a tenant have to go before a charge of n fits: 0 when it
// fits now, or when no eviction would help since n exceeds the quota.
func (l *Usage) Short(t model.Tenant, n uint64) uint64 {
	if l == nil {
		return 0
	}
	a := l.find(t)
	if a == nil {
		return 0
	}
	charged, limit := a.charged(), a.effective.Load()
	if n > limit || charged <= limit-n {
		return 0
	}
	return charged - (limit - n)
}

// Get returns one tenant, or TenantNotRegistered.
func (l *Usage) Get(t model.Tenant) (model.TenantQuota, error) {
	const op = "tenant quota: get"
	if l == nil {
		return model.TenantQuota{}, off(op)
	}
	if a := l.find(t); a != nil {
		if q := a.quota(); known(q) {
			return q, nil
		}
	}
	return model.TenantQuota{}, errs.New(errs.TenantNotRegistered, op, "tenant %q is not in the quota policy and has no objects", name(t))
}

// List returns the tenants that are in the policy or have objects, sorted by name.
func (l *Usage) List() []model.TenantQuota {
	if l == nil {
		return nil
	}
	out := make([]model.TenantQuota, 0, len(*l.accounts.Load()))
	for _, a := range *l.accounts.Load() {
		if q := a.quota(); known(q) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b model.TenantQuota) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out
}

// Totals are totals over the tenants, in bytes, and the capacity that they share, which is 0
// while it is not known.
type Totals struct{ Capacity, Requested, Effective uint64 }

// Totals returns the totals. A total that does not fit 64 bits is shown as the largest number.
func (l *Usage) Totals() Totals {
	if l == nil {
		return Totals{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	accounts := *l.accounts.Load()
	out := Totals{Capacity: l.capacity}
	high, low := sum(accounts)
	if out.Requested = low; high > 0 {
		out.Requested = math.MaxUint64
	}
	for _, a := range accounts {
		if out.Effective += a.effective.Load(); out.Effective < a.effective.Load() {
			out.Effective = math.MaxUint64
			break
		}
	}
	return out
}

func (l *Usage) find(t model.Tenant) *account { return (*l.accounts.Load())[name(t)] }

// known is false for a tenant that left the policy and whose last object is gone.
func known(q model.TenantQuota) bool { return q.ExplicitPolicy || q.Charged > 0 }

func name(t model.Tenant) model.Tenant {
	if t == "" {
		return model.DefaultTenant
	}
	return t
}

func off(op string) error {
	return errs.WithHint(errs.New(errs.UnavailableInCurrentMode, op, "this master serves one tenant only"), "start it with enable_multi_tenants")
}
