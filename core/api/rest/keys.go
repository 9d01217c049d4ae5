package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Keys is a page of keys.
type Keys struct {
	// Keys have U+FFFD for what is not UTF-8.
	Keys []string `json:"keys"`
	// Next is the parameter after of the next page, percent-encoded already; nil at the
	// end.
	Next *string `json:"next"`
}

// The sizes of a page.
const (
	defaultPage = 1000
	maxPage     = 10_000
)

func (h *handler) listKeys(w http.ResponseWriter, r *http.Request) {
	q, err := h.strict(r)
	limit := defaultPage
	if err == nil {
		limit, err = q.number("limit", defaultPage, maxPage)
	}
	var caller model.Caller
	if err == nil {
		caller, err = h.tenant(r, q["tenant_id"])
	}
	var keys []model.Key
	if err == nil {
		keys, err = h.master.ListKeys(r.Context(), caller, q["regex"], q["after"], limit)
	}
	if err != nil {
		h.explain(w, r, err)
		return
	}
	page := Keys{Keys: append([]string{}, keys...)}
	if len(keys) >= limit {
		next := escape(keys[len(keys)-1])
		page.Next = &next
	}
	sendData(w, page)
}

// escape encodes a parameter; parseQuery takes plus signs as they are.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

type removed struct {
	Success bool `json:"success"`
	Removed int  `json:"removed_count"`
}

// removeAll deletes what may be removed. Without a tenant it means all of them.
func (h *handler) removeAll(w http.ResponseWriter, r *http.Request) {
	h.removing(w, r, func(q query, caller model.Caller, force bool) (int, error) {
		if q["tenant_id"] == "" {
			caller.Tenant = model.AllTenants
		}
		return h.master.RemoveAll(r.Context(), caller, force)
	})
}

// remove deletes one key.
func (h *handler) remove(w http.ResponseWriter, r *http.Request) {
	h.removing(w, r, func(q query, caller model.Caller, force bool) (int, error) {
		key, err := q.key()
		if err != nil {
			return 0, err
		}
		res, err := h.master.Remove(r.Context(), caller, []model.Key{key}, force)
		switch {
		case err != nil:
			return 0, err
		case len(res) != 1:
			return 0, errs.New(errs.Internal, "admin: remove", "%d answers for one key", len(res))
		}
		return 1, res[0]
	})
}

func (h *handler) removing(w http.ResponseWriter, r *http.Request, do func(query, model.Caller, bool) (int, error)) {
	q, err := h.strict(r)
	var caller model.Caller
	if err == nil {
		caller, err = h.tenant(r, q["tenant_id"])
	}
	var force bool
	if err == nil {
		force, err = q.flag("force", false)
	}
	var n int
	if err == nil {
		n, err = do(q, caller, force)
	}
	if err != nil {
		h.explain(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, removed{true, n})
}
