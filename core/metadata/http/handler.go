// Package http is the metadata service over HTTP, as upstream's nodes use it: one URL,
// GET, PUT and DELETE with the key as a parameter. Handler serves it, Client asks it.
package http

import (
	"errors"
	"io"
	nethttp "net/http"
	"strconv"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Path is where the service lies on its server.
const Path = "/metadata"

// NewHandler serves store under Path, and /health. Keys are percent-decoded, so that every
// spelling of a key is the same key. The caller's server bounds connections and times; the
// handler bounds bodies by the store's limits.
func NewHandler(store *memory.Store) nethttp.Handler {
	h := &handler{store: store}
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch {
		case r.URL.Path == "/health" && r.Method == nethttp.MethodGet:
			answer(w, nethttp.StatusOK, "OK")
		case r.URL.Path == Path:
			h.serve(w, r)
		default:
			answer(w, nethttp.StatusNotFound, "404 Not Found")
		}
	})
}

type handler struct{ store *memory.Store }

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
	outcome, err := h.store.Set(key, body)
	switch {
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

// duplicateText is how upstream's server says metadata.ErrDuplicate.
const duplicateText = "Duplicate rpc_meta key not allowed"

func (h *handler) delete(w nethttp.ResponseWriter, r *nethttp.Request, key string) {
	if err := h.store.Delete(r.Context(), key); err != nil {
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
