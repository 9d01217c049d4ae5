package quota

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// closed is the bit of an account's state that forbids charges. It shares a word with the
// bytes charged, so that a tenant is closed and found empty in one step.
const closed = 1 << 63

// account is what one tenant may use and uses. An account that left the table is closed
// and holds nothing, so that a charge that still has it is refused.
type account struct {
	name      model.Tenant
	state     atomic.Uint64 // bytes charged, and closed
	effective atomic.Uint64
	requested atomic.Uint64 // 0 where the policy does not name the tenant
}

func (a *account) charged() uint64 { return a.state.Load() &^ closed }

// charge takes the longest prefix of sizes that fits and returns its length, and why not
// more.
func (a *account) charge(sizes []uint64) (int, error) {
	for {
		state, limit := a.state.Load(), a.effective.Load()
		if state&closed != 0 {
			return 0, notRegistered(a.name)
		}
		sum, n := state, 0
		for n < len(sizes) && sum <= limit && sizes[n] <= limit-sum {
			sum += sizes[n]
			n++
		}
		if n > 0 && !a.state.CompareAndSwap(state, sum) {
			continue
		}
		if n < len(sizes) {
			return n, a.exceeded(sizes[n], sum, limit)
		}
		return n, nil
	}
}

// refund never makes less than nothing of what is charged.
func (a *account) refund(n uint64) {
	for {
		state := a.state.Load()
		if a.state.CompareAndSwap(state, state-min(n, state&^closed)) {
			return
		}
	}
}

func (a *account) exceeded(asked, charged, limit uint64) error {
	err := errs.New(errs.TenantQuotaExceeded, "tenant quota", "tenant %q has %d of %d bytes and wants %d more", a.name, charged, limit, asked)
	if requested := a.requested.Load(); requested > limit {
		return errs.WithHint(err, "its quota is %d bytes, cut because all quotas together exceed the capacity of the pool: mount more memory", requested)
	}
	return errs.WithHint(err, "remove what the tenant needs no more, or raise its quota")
}

func notRegistered(t model.Tenant) error {
	return errs.WithHint(errs.New(errs.TenantNotRegistered, "tenant quota", "tenant %q is not in the quota policy and may not write", t),
		"add it to the policy file, or PUT /api/v1/tenant_quotas?tenant_id=")
}

func (a *account) quota() model.TenantQuota {
	state, requested, effective := a.state.Load(), a.requested.Load(), a.effective.Load()
	charged := state &^ closed
	return model.TenantQuota{
		Tenant: a.name, Requested: requested, Effective: effective, Charged: charged,
		AdmissionClosed: state&closed != 0, OverQuota: charged > effective, ExplicitPolicy: requested > 0,
	}
}
