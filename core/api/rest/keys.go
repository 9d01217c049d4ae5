package rest

import (
	"fmt"
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

func (h *handler) listKeys(a *asked) (Keys, error) {
	limit, caller := a.number("limit", defaultPage, maxPage), a.tenant(a.query["tenant_id"])
	keys := try(a, func() ([]model.Key, error) {
		return h.master.ListKeys(a.Context(), caller, a.query["regex"], a.query["after"], limit)
	})
	page := Keys{Keys: append([]string{}, keys...)}
	if len(keys) > 0 && len(keys) >= limit {
		next := escape(keys[len(keys)-1])
		page.Next = &next
	}
	return page, a.err
}

// escape encodes a parameter; parseQuery takes plus signs as they are.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

type removed struct {
	Success bool `json:"success"`
	Removed int  `json:"removed_count"`
}

// removeAll deletes what may be removed. Without a tenant it means all of them.
func (h *handler) removeAll(a *asked) (removed, error) {
	caller, force := a.tenant(a.query["tenant_id"]), a.flag("force", false)
	if caller.Tenant == "" {
		caller.Tenant = model.AllTenants
	}
	a.about = fmt.Sprintf("all keys of tenant %q, force %t", caller.Tenant, force)
	n := try(a, func() (int, error) { return h.master.RemoveAll(a.Context(), caller, force) })
	return removed{true, n}, a.err
}

// remove deletes one key.
func (h *handler) remove(a *asked) (removed, error) {
	caller, force := a.tenant(a.query["tenant_id"]), a.flag("force", false)
	key := a.key()
	a.about = fmt.Sprintf("key %.500q of tenant %q, force %t", key, caller.Tenant, force)
	res := try(a, func() ([]error, error) { return h.master.Remove(a.Context(), caller, []model.Key{key}, force) })
	a.do(func() error {
		if len(res) != 1 {
			return errs.New(errs.Internal, "admin: remove", "%d answers for one key", len(res))
		}
		return res[0]
	})
	return removed{true, 1}, a.err
}
