package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// scope is the name under which the table holds a caller's keys. While the master serves
// one tenant only, a key is its own name.
type scope struct {
	tenant model.Tenant
	on     bool
}

func (c scope) name(key model.Key) string {
	if !c.on {
		return key
	}
	return model.ScopedKey(c.tenant, key)
}

// key is the counterpart of name; ok is false for a key of another tenant.
func (c scope) key(name string) (key model.Key, ok bool) {
	if !c.on {
		return name, true
	}
	t, key, ok := model.SplitKey(name)
	return key, ok && t == c.tenant
}

// scoped says whose keys a caller means. InvalidParams for a malformed tenant.
func (s *Service) scoped(op string, caller model.Caller) (scope, error) {
	if s.tenants == nil {
		return scope{}, nil
	}
	if err := model.ValidateTenant(caller.Tenant); err != nil {
		return scope{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	c := scope{tenant: caller.Tenant, on: true}
	if c.tenant == "" {
		c.tenant = model.DefaultTenant
	}
	return c, nil
}

// admitted is admit and scoped.
func (s *Service) admitted(ctx context.Context, op string, caller model.Caller, items int) (scope, error) {
	if err := s.admit(ctx, op, items); err != nil {
		return scope{}, err
	}
	return s.scoped(op, caller)
}

// scopedWrite is scoped for a caller that writes: TenantNotRegistered for a tenant that has
// no quota, also for one that has no valid name.
func (s *Service) scopedWrite(op string, caller model.Caller) (scope, error) {
	c, err := s.scoped(op, caller)
	if err != nil {
		s.counters.TenantRejects.Add(1, "", metrics.RejectUnregistered)
		return c, errs.WithHint(errs.Wrap(errs.TenantNotRegistered, op, err), "register the tenant with a quota first")
	}
	return c, nil
}

// charge accounts for bytes that a tenant is to occupy. When its quota does not allow them
// it evicts what the tenant itself has, twice at most.
func (s *Service) charge(ctx context.Context, c scope, bytes uint64) error {
	if !c.on {
		return nil
	}
	var err error
	for range quotaTries {
		if err = s.usage.Charge(c.tenant, bytes); err == nil || !errs.Is(err, errs.TenantQuotaExceeded) {
			break
		}
		if s.evictTenant(ctx, c, s.usage.Short(c.tenant, bytes)) == 0 {
			break
		}
	}
	if err != nil {
		if err = s.usage.Charge(c.tenant, bytes); err == nil {
			return nil
		}
		why := metrics.RejectQuota
		if errs.Is(err, errs.TenantNotRegistered) {
			why = metrics.RejectUnregistered
		}
		s.counters.TenantRejects.Add(1, c.tenant, why)
	}
	return err
}

// mayWrite is what charge says of a tenant that is not in the policy any more. Being over
// its quota is no reason: nothing more is to be occupied.
func (s *Service) mayWrite(c scope) error {
	if !c.on {
		return nil
	}
	err := s.usage.Charge(c.tenant, 0)
	if err == nil || !errs.Is(err, errs.TenantNotRegistered) {
		return nil
	}
	s.counters.TenantRejects.Add(1, c.tenant, metrics.RejectUnregistered)
	return err
}

// quotaTries is how often one charge evicts.
const quotaTries = 2

func (s *Service) refund(c scope, bytes uint64) {
	if c.on {
		s.usage.Refund(c.tenant, bytes)
	}
}

// TenantQuotas lists the tenants.
func (s *Service) TenantQuotas(context.Context) ([]model.TenantQuota, error) {
	if s.tenants == nil {
		return nil, s.oneTenant()
	}
	return s.usage.List(), nil
}

// TenantQuota answers with one tenant.
func (s *Service) TenantQuota(_ context.Context, tenant model.Tenant) (model.TenantQuota, error) {
	if s.tenants == nil {
		return model.TenantQuota{}, s.oneTenant()
	}
	return s.usage.Get(tenant)
}

// SetTenantQuota registers a tenant or changes its quota.
func (s *Service) SetTenantQuota(_ context.Context, tenant model.Tenant, bytes uint64) (model.TenantQuota, error) {
	if s.tenants == nil {
		return model.TenantQuota{}, s.oneTenant()
	}
	return s.tenants.Set(tenant, bytes)
}

// DeleteTenantQuota takes a tenant out.
func (s *Service) DeleteTenantQuota(_ context.Context, tenant model.Tenant) error {
	if s.tenants == nil {
		return s.oneTenant()
	}
	return s.tenants.Delete(tenant)
}

func (s *Service) oneTenant() error {
	return errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "master: tenants", "the master serves one tenant only"),
		"start it with --enable_multi_tenants and a quota file")
}

// setQuotas divides the memory that there is among the quotas, with that of absent segments: what lies there stays charged.
func (s *Service) setQuotas() { s.usage.SetCapacity(s.registry.View().Retained) }
