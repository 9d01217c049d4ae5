package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// query is the parameters of a request. Of one that is given twice the first counts.
type query map[string]string

// parseQuery decodes percent signs. A plus sign is a plus sign, not a blank: it is common
// in keys and in expressions, and scripts do not encode it.
func parseQuery(raw string) (query, error) {
	q := query{}
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.PathUnescape(name)
		if err == nil {
			value, err = url.PathUnescape(value)
		}
		if err != nil {
			return nil, errs.New(errs.InvalidParams, "admin", "the parameter %.100q is not encoded properly; a percent sign is written %%25", pair)
		}
		if _, twice := q[name]; !twice && name != "" {
			q[name] = value
		}
	}
	return q, nil
}

// lenient reads the parameters of a route of upstream's, which ignores names it does not
// know.
func lenient(r *http.Request) (query, error) { return parseQuery(r.URL.RawQuery) }

// asked is a request of a route below /api/ with its parameters. Its methods read one thing each and
// keep the first error; after an error they return zero values and ask the master nothing.
type asked struct {
	*http.Request
	h     *handler
	call  *access.Call
	query query
	// about is what a change is about, for the audit: the parameters unless the route says more.
	about string
	err   error
}

// try runs f unless there was an error before, and keeps its own.
func try[T any](a *asked, f func() (T, error)) (v T) {
	if a.err == nil {
		v, a.err = f()
	}
	return v
}

func (a *asked) do(f func() error) {
	if a.err == nil {
		a.err = f()
	}
}

func (a *asked) json(v any, strict bool) {
	a.do(func() error { return readJSON(a.Request, v, strict) })
}

func (a *asked) key() model.Key { return try(a, a.query.key) }

func (a *asked) id(name string) model.UUID {
	return try(a, func() (model.UUID, error) { return a.query.id(name) })
}

func (a *asked) flag(name string, def bool) bool {
	return try(a, func() (bool, error) { return a.query.flag(name, def) })
}

func (a *asked) number(name string, def, most int) int {
	return try(a, func() (int, error) { return a.query.number(name, def, most) })
}

func (a *asked) tenant(name string) model.Caller {
	return try(a, func() (model.Caller, error) { return a.h.tenant(a.Request, a.call, name) })
}

// data serves a route whose answer goes into success, raw one whose answer is all of it.
func data[T any](answer func(*handler, *asked) (T, error)) func(*handler, http.ResponseWriter, *http.Request) {
	return serve(answer, sendData[T])
}

func raw[T any](answer func(*handler, *asked) (T, error)) func(*handler, http.ResponseWriter, *http.Request) {
	return serve(answer, func(w http.ResponseWriter, v T) { sendJSON(w, http.StatusOK, v) })
}

func serve[T any](answer func(*handler, *asked) (T, error), send func(http.ResponseWriter, T)) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		a := &asked{Request: r, h: h, call: h.routeOf(r).call, about: fmt.Sprintf("%.500s", r.URL.RawQuery)}
		a.query, a.err = h.strict(r)
		v, err := answer(h, a)
		h.doors.Access().Done(r.Context(), a.call, a.about, err)
		if err != nil {
			h.explain(w, r, err)
			return
		}
		send(w, v)
	}
}

// strict reads the parameters and refuses names that the route does not have.
func (h *handler) strict(r *http.Request) (query, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	known := h.routeOf(r).params
	for name := range q {
		if !slices.Contains(known, name) {
			return nil, errs.New(errs.InvalidParams, "admin", "%s has no parameter %.100q; it has %s", r.URL.Path, name, orNone(known))
		}
	}
	return q, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// flag reads a truth value, which is def where it is left out.
func (q query) flag(name string, def bool) (bool, error) {
	v := q[name]
	if v == "" {
		return def, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return def, errs.New(errs.InvalidParams, "admin", "%s is %.100q; it is true or false", name, v)
	}
	return b, nil
}

// number reads a number from 1 to most, which is def where it is left out.
func (q query) number(name string, def, most int) (int, error) {
	v := q[name]
	if v == "" {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return def, errs.New(errs.InvalidParams, "admin", "%s is %.100q; it is a number from 1 to %d", name, v, most)
	}
	return n, nil
}

// key reads the parameter key, which has to be there.
func (q query) key() (model.Key, error) {
	k := q["key"]
	if err := model.ValidateKey(k); err != nil {
		return "", errs.Wrap(errs.InvalidParams, "admin", err)
	}
	return k, nil
}

// id reads an identifier, which has to be there.
func (q query) id(name string) (model.UUID, error) {
	id, err := model.ParseUUID(q[name])
	if err != nil {
		return id, errs.New(errs.InvalidParams, "admin", "Missing or invalid %s: %w", name, err)
	}
	return id, nil
}

// tenant returns the tenant that a request means, as far as its peer may mean it. It checks that it exists, so that a master with one tenant only does not
// answer for another with that one's objects.
func (h *handler) tenant(r *http.Request, call *access.Call, name string) (model.Caller, error) {
	name, err := h.doors.Access().Tenant(r.Context(), call, name)
	c := model.Caller{Tenant: name}
	if err != nil {
		return c, err
	}
	if err := model.ValidateTenant(name); err != nil {
		return c, errs.Wrap(errs.InvalidParams, "admin", err)
	}
	if name == "" || name == model.DefaultTenant {
		return c, nil
	}
	_, err = h.master.TenantQuota(r.Context(), name)
	if errs.Is(err, errs.UnavailableInCurrentMode) || errs.Is(err, errs.NotSupported) {
		err = errs.New(errs.TenantNotRegistered, "admin", "no tenant %q: the master serves the tenant %q only", name, model.DefaultTenant)
	}
	return c, err
}

// readJSON decodes the body into v, whatever its content type says, as upstream does. It
// refuses what JSON would change silently: bytes that are not UTF-8, a second value.
// strict refuses names that v does not have.
func readJSON(r *http.Request, v any, strict bool) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return errs.New(errs.InvalidParams, "admin", "the body is larger than %d bytes: %w", maxBody, err)
	case err != nil:
		return errs.New(errs.InvalidParams, "admin", "the body could not be read: %w", err)
	}
	return decodeJSON(body, v, strict)
}

func decodeJSON(body []byte, v any, strict bool) error {
	const op = "admin: Invalid JSON body"
	if !utf8.Valid(body) {
		return errs.New(errs.InvalidParams, op, "it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errs.New(errs.InvalidParams, op, "something follows the value")
	}
	return nil
}
