package rest

import (
	"fmt"
	"math"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Quota is what a tenant may use and uses, in bytes.
type Quota struct {
	Tenant          string `json:"tenant_id"`
	Requested       uint64 `json:"requested_quota_bytes"`
	Effective       uint64 `json:"effective_quota_bytes"`
	Charged         uint64 `json:"charged_bytes"`
	AdmissionClosed bool   `json:"admission_closed"`
	OverQuota       bool   `json:"over_quota"`
	ExplicitPolicy  bool   `json:"has_explicit_policy"`
}

// quotaRequest is the body that sets a quota. It is signed, so that -1 is refused and
// does not turn into a large number.
type quotaRequest struct {
	Requested *int64 `json:"requested_quota_bytes"`
}

func (q quotaRequest) bytes() (uint64, error) {
	if q.Requested == nil || *q.Requested < 1 {
		return 0, errs.New(errs.InvalidParams, "admin: tenant quota", "requested_quota_bytes is a number from 1 to %d", int64(math.MaxInt64))
	}
	return uint64(*q.Requested), nil
}

// tenantQuotas answers with one tenant, or with all of them.
func (h *handler) tenantQuotas(a *asked) (any, error) {
	mine := access.TenantOf(a.Context())
	if name := a.query["tenant_id"]; name != "" {
		a.do(func() error {
			_, err := h.doors.Access().Tenant(a.Context(), a.call, name)
			return err
		})
		t := try(a, func() (model.TenantQuota, error) { return h.master.TenantQuota(a.Context(), name) })
		return quotaOf(t), a.err
	}
	list := try(a, func() ([]model.TenantQuota, error) { return h.master.TenantQuotas(a.Context()) })
	out := make([]Quota, 0, len(list))
	for _, t := range list {
		if mine == "" || t.Tenant == mine {
			out = append(out, quotaOf(t))
		}
	}
	return out, a.err
}

func (h *handler) setTenantQuota(a *asked) (Quota, error) {
	name := a.named()
	var body quotaRequest
	a.json(&body, true)
	n := try(a, body.bytes)
	a.about = fmt.Sprintf("tenant %q, %d bytes", name, n)
	t := try(a, func() (model.TenantQuota, error) { return h.master.SetTenantQuota(a.Context(), name, n) })
	return quotaOf(t), a.err
}

func (h *handler) deleteTenantQuota(a *asked) (*Quota, error) {
	name := a.named()
	a.about = fmt.Sprintf("tenant %q", name)
	a.do(func() error { return h.master.DeleteTenantQuota(a.Context(), name) })
	return nil, a.err
}

// named reads the tenant of a change, which has to be there.
func (a *asked) named() model.Tenant {
	name := a.query["tenant_id"]
	a.do(func() error {
		if name == "" {
			return errs.New(errs.InvalidParams, "admin: tenant quota", "tenant_id is missing")
		}
		if err := model.ValidateTenant(name); err != nil {
			return errs.Wrap(errs.InvalidParams, "admin: tenant quota", err)
		}
		return nil
	})
	return name
}

func quotaOf(t model.TenantQuota) Quota {
	return Quota{t.Tenant, t.Requested, t.Effective, t.Charged, t.AdmissionClosed, t.OverQuota, t.ExplicitPolicy}
}
