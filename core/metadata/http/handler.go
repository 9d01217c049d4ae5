// Package http is the metadata service over HTTP, as upstream's nodes use it: one URL,
// GET, PUT and DELETE with the key as a parameter. Handler serves it, Client asks it.
package http

import (
	"errors"
	"io"
	nethttp "net/http"
	"strconv"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Path is where the service lies on its server.
const Path = "/metadata"

// NewHandler serves store under Path, and /health. Keys are percent-decoded, so that every
// spelling of a key is the same key. The caller's server bounds connections and times; the
// handler bounds bodies by the store's limits. k, which may be nil, decides over the calls of peers with an
// identity: a key belongs to its writer.
func NewHandler(store *memory.Store, k *access.Control) nethttp.Handler {
	h := &handler{store: store, access: k, owners: owners{store: store}}
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch {
		case r.URL.Path == "/health" && r.Method == nethttp.MethodGet:
			if h.may(w, r, access.Find(string(config.DoorMetadata), "GET /health")) {
				answer(w, nethttp.StatusOK, "OK")
			}
		case r.URL.Path == Path:
			h.serve(w, r)
		default:
			answer(w, nethttp.StatusNotFound, "404 Not Found")
		}
	})
}

type handler struct {
	store  *memory.Store
	access *access.Control
	owners owners
}

// may reports whether the peer may make a call, and answers it otherwise.
func (h *handler) may(w nethttp.ResponseWriter, r *nethttp.Request, c *access.Call) bool {
	err := h.access.Check(r.Context(), c)
	if err != nil {
		answer(w, nethttp.StatusForbidden, err.Error())
	}
	return err == nil
}

func callOf(method string) *access.Call {
	if method == nethttp.MethodHead {
		method = nethttp.MethodGet
	}
	return access.Find(string(config.DoorMetadata), method+" "+Path)
}

func (h *handler) serve(w nethttp.ResponseWriter, r *nethttp.Request) {
	var method func(nethttp.ResponseWriter, *nethttp.Request, string)
	switch r.Method {
	case nethttp.MethodGet:
		method = h.get
	case nethttp.MethodPut:
		method = h.put
	case nethttp.MethodDelete:
		method = h.delete
	default: // Upstream knows no such route either.
		answer(w, nethttp.StatusNotFound, "404 Not Found")
		return
	}
	if !h.may(w, r, callOf(r.Method)) {
		return
	}
	key := r.URL.Query().Get("key")
	if key == "" {
		answer(w, nethttp.StatusBadRequest, "Missing key parameter")
		return
	}
	method(w, r, key)
}

func (h *handler) get(w nethttp.ResponseWriter, r *nethttp.Request, key string) {
	v, err := h.store.Get(r.Context(), key)
	if err != nil {
		answer(w, nethttp.StatusNotFound, "metadata not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(v)))
	_, _ = w.Write(v) // A client that has gone needs no error.
}

func (h *handler) put(w nethttp.ResponseWriter, r *nethttp.Request, key string) {
	limit := h.store.Limits().ValueSize
	body, err := io.ReadAll(nethttp.MaxBytesReader(w, r.Body, int64(limit)))
	if err != nil {
		var tooLarge *nethttp.MaxBytesError
		if errors.As(err, &tooLarge) {
			answer(w, nethttp.StatusRequestEntityTooLarge, "The value is larger than "+strconv.Itoa(limit)+" bytes")
			return
		}
		answer(w, nethttp.StatusBadRequest, "The body could not be read")
		return
	}
	var outcome memory.Outcome
	err = h.change(r, key, true, func() (err error) {
		outcome, err = h.store.Set(key, body)
		return err
	})
	switch {
	case errs.Is(err, errs.IllegalClient):
		answer(w, nethttp.StatusForbidden, err.Error())
	case errors.Is(err, metadata.ErrDuplicate):
		answer(w, nethttp.StatusBadRequest, duplicateText)
	case errs.Is(err, errs.BufferOverflow):
		answer(w, nethttp.StatusInsufficientStorage, err.Error())
	case err != nil:
		answer(w, nethttp.StatusBadRequest, err.Error())
	case outcome == memory.Unchanged:
		answer(w, nethttp.StatusOK, "metadata unchanged")
	default:
		answer(w, nethttp.StatusOK, "metadata updated")
	}
}

// change makes a change to a key, and tells the audit of it.
func (h *handler) change(r *nethttp.Request, key string, keep bool, do func() error) error {
	c := callOf(r.Method)
	err := h.owners.change(r.Context(), h.access, c, key, keep, do)
	h.access.Done(r.Context(), c, key, err)
	return err
}

// duplicateText is how upstream's server says metadata.ErrDuplicate.
const duplicateText = "Duplicate rpc_meta key not allowed"

func (h *handler) delete(w nethttp.ResponseWriter, r *nethttp.Request, key string) {
	err := h.change(r, key, false, func() error { return h.store.Delete(r.Context(), key) })
	if errs.Is(err, errs.IllegalClient) {
		answer(w, nethttp.StatusForbidden, err.Error())
		return
	}
	if err != nil {
		answer(w, nethttp.StatusNotFound, "metadata not found")
		return
	}
	answer(w, nethttp.StatusOK, "metadata deleted")
}

// answer writes a text without a Content-Type, as upstream's server does.
func answer(w nethttp.ResponseWriter, status int, text string) {
	w.Header()["Content-Type"] = nil
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // A client that has gone needs no error.
}
