package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mooncake-go/mooncake/core/model"
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
