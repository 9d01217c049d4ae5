package rest

import (
	"math"
	"net/http"

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

func (h *handler) tenantQuotas(w http.ResponseWriter, r *http.Request) {
	q, err := h.strict(r)
	if err != nil {
		h.explain(w, r, err)
		return
	}
	if name := q["tenant_id"]; name != "" {
		t, err := h.master.TenantQuota(r.Context(), name)
		h.sendQuota(w, r, t, err)
		return
	}
	list, err := h.master.TenantQuotas(r.Context())
	if err != nil {
		h.explain(w, r, err)
		return
	}
	out := make([]Quota, 0, len(list))
	for _, t := range list {
		out = append(out, quotaOf(t))
	}
	sendData(w, out)
}

func (h *handler) setTenantQuota(w http.ResponseWriter, r *http.Request) {
	name, err := h.named(r)
	var body quotaRequest
	if err == nil {
		err = readJSON(r, &body, true)
	}
	var n uint64
	if err == nil {
		n, err = body.bytes()
	}
	var t model.TenantQuota
	if err == nil {
		t, err = h.master.SetTenantQuota(r.Context(), name, n)
	}
	h.sendQuota(w, r, t, err)
}

func (h *handler) deleteTenantQuota(w http.ResponseWriter, r *http.Request) {
	name, err := h.named(r)
	if err == nil {
		err = h.master.DeleteTenantQuota(r.Context(), name)
	}
	if err != nil {
		h.explain(w, r, err)
		return
	}
	sendData[*Quota](w, nil)
}

// named reads the tenant of a change, which has to be there.
func (h *handler) named(r *http.Request) (model.Tenant, error) {
	q, err := h.strict(r)
	if err != nil {
		return "", err
	}
	name := q["tenant_id"]
	if name == "" {
		return "", errs.New(errs.InvalidParams, "admin: tenant quota", "tenant_id is missing")
	}
	if err := model.ValidateTenant(name); err != nil {
		return "", errs.Wrap(errs.InvalidParams, "admin: tenant quota", err)
	}
	return name, nil
}

func (h *handler) sendQuota(w http.ResponseWriter, r *http.Request, t model.TenantQuota, err error) {
	if err != nil {
		h.explain(w, r, err)
		return
	}
	sendData(w, quotaOf(t))
}

func quotaOf(t model.TenantQuota) Quota {
	return Quota{t.Tenant, t.Requested, t.Effective, t.Charged, t.AdmissionClosed, t.OverQuota, t.ExplicitPolicy}
}
