package app

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// atLeaders asks the leader of each cell, one after the other: here, or at the admin port of the master that it is. An error is
// that of the first cell that failed.
func atLeaders[T any](ctx context.Context, w whole, here func(*master.Service) (T, error), there func(*rest.Client) (T, error)) ([]T, error) {
	var out []T
	for i, s := range w.leading() {
		var one T
		var err error
		if s != nil {
			one, err = here(s)
		} else {
			one, err = atLeader(w, i, there)
		}
		if err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), "cell "+strconv.Itoa(i), err)
		}
		if ctx.Err() != nil {
			return nil, errs.Wrap(errs.RPCTimeout, "admin", ctx.Err())
		}
		out = append(out, one)
	}
	return out, nil
}

// atLeader asks the master that leads a cell elsewhere.
func atLeader[T any](w whole, cell int, f func(*rest.Client) (T, error)) (none T, err error) {
	v := w.of.cells[cell].campaign.Status().View
	members := w.of.members.Load()
	if members == nil || !v.Led() {
		return none, errs.New(errs.UnavailableInCurrentStatus, "admin", "no master leads it")
	}
	i := slices.IndexFunc(*members, func(m ha.Member) bool { return cell < len(m.Cells) && m.Cells[cell].Address == v.Address })
	if i < 0 {
		return none, errs.New(errs.UnavailableInCurrentStatus, "admin", "the master that leads it is not known yet")
	}
	c, err := rest.NewClient(w.of.doors, (*members)[i].Admin, peekTimeout)
	if err != nil {
		return none, err
	}
	defer c.Close()
	return f(c.OfCell(cell))
}

// add adds what a tenant has in another cell.
func add(a, b model.TenantQuota) model.TenantQuota {
	a.Tenant = cmp.Or(a.Tenant, b.Tenant)
	a.Requested, a.Effective, a.Charged = a.Requested+b.Requested, a.Effective+b.Effective, a.Charged+b.Charged
	a.AdmissionClosed, a.OverQuota, a.ExplicitPolicy = a.AdmissionClosed || b.AdmissionClosed, a.OverQuota || b.OverQuota, a.ExplicitPolicy || b.ExplicitPolicy
	return a
}

func quotaOf(q rest.Quota) model.TenantQuota {
	return model.TenantQuota{
		Tenant: q.Tenant, Requested: q.Requested, Effective: q.Effective, Charged: q.Charged,
		AdmissionClosed: q.AdmissionClosed, OverQuota: q.OverQuota, ExplicitPolicy: q.ExplicitPolicy,
	}
}

// TenantQuotas implements rest.Master: what the cells have, together.
func (w whole) TenantQuotas(ctx context.Context) ([]model.TenantQuota, error) {
	lists, err := atLeaders(ctx, w, func(s *master.Service) ([]model.TenantQuota, error) { return s.TenantQuotas(ctx) },
		func(c *rest.Client) (out []model.TenantQuota, err error) {
			list, err := c.Quotas(ctx)
			for _, q := range list {
				out = append(out, quotaOf(q))
			}
			return out, err
		})
	if err != nil {
		return nil, err
	}
	all := map[model.Tenant]model.TenantQuota{}
	for _, l := range lists {
		for _, q := range l {
			all[q.Tenant] = add(all[q.Tenant], q)
		}
	}
	var out []model.TenantQuota
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out, nil
}

// TenantQuota implements rest.Master.
func (w whole) TenantQuota(ctx context.Context, tenant model.Tenant) (model.TenantQuota, error) {
	list, err := w.TenantQuotas(ctx)
	if err != nil {
		return model.TenantQuota{}, err
	}
	for _, q := range list {
		if q.Tenant == tenant {
			return q, nil
		}
	}
	return model.TenantQuota{}, errs.New(errs.TenantNotRegistered, "admin: tenant quota", "no cell knows tenant %q", tenant)
}

// SetTenantQuota implements rest.Master: each cell gives the tenant its share.
func (w whole) SetTenantQuota(ctx context.Context, tenant model.Tenant, bytes uint64) (model.TenantQuota, error) {
	list, err := atLeaders(ctx, w, func(s *master.Service) (model.TenantQuota, error) { return s.SetTenantQuota(ctx, tenant, bytes) },
		func(c *rest.Client) (model.TenantQuota, error) {
			q, err := c.SetQuota(ctx, tenant, int64(bytes))
			return quotaOf(q), err
		})
	var sum model.TenantQuota
	for _, q := range list {
		sum = add(sum, q)
	}
	return sum, err
}

// DeleteTenantQuota implements rest.Master. The tenant has to be empty everywhere.
func (w whole) DeleteTenantQuota(ctx context.Context, tenant model.Tenant) error {
	q, err := w.TenantQuota(ctx, tenant)
	if err != nil {
		return err
	}
	if q.Charged > 0 {
		return errs.New(errs.TenantNotEmpty, "admin: tenant quota", "tenant %q has objects of %d bytes", tenant, q.Charged)
	}
	_, err = atLeaders(ctx, w, func(s *master.Service) (none struct{}, err error) {
		return none, gone(s.DeleteTenantQuota(ctx, tenant))
	},
		func(c *rest.Client) (none struct{}, err error) { return none, gone(c.DeleteQuota(ctx, tenant)) })
	return err
}

// gone is the error of a deletion: cells of one master share a policy, which lacks the tenant after the first of them.
func gone(err error) error {
	if errs.Is(err, errs.TenantNotRegistered) {
		return nil
	}
	return err
}
