// Package rest is the admin port of the master: plain HTTP in the shapes that existing
// scripts and dashboards read, by default on port 9003, and JSON below /api/v1 for the
// rest. routes is the table of everything, docs/admin-http.md its documentation; Client
// is the other side.
//
// A path that is not there answers 404 with "404 Not Found" as upstream does, below /api/
// in JSON; a method that a path does not have answers 405. Keys that are not UTF-8 appear
// in JSON with U+FFFD for what is not.
package rest

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of the handler; the zero value is usable.
type Options struct {
	// Status says what the master is; nil is metrics.Serving, for a master alone.
	Status metrics.StatusFunc
	// Serves says whether questions about objects have an answer; nil is Ready of Status.
	Serves func() bool
	// Doors has further metrics, nil for none.
	Doors *doors.Doors
	// Logger, nil for none.
	Logger *slog.Logger
}

// Content types as upstream sends them.
const (
	typeText    = "text/plain; charset=utf-8"
	typeMetrics = "text/plain; version=0.0.4"
	typeJSON    = "application/json; charset=utf-8"
)

// maxBody bounds the body of a request in bytes.
const maxBody = 1 << 20

// NewHandler serves m. The server around it bounds times and connections; the handler
// streams long answers and extends the time for writing while the reader keeps up.
func NewHandler(m Master, opts Options) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Status == nil {
		opts.Status = metrics.Serving
	}
	if opts.Serves == nil {
		opts.Serves = func() bool { return opts.Status().Ready }
	}
	h := &handler{master: m, status: opts.Status, serves: opts.Serves, log: opts.Logger, doors: opts.Doors, paths: map[string]map[string]route{}}
	for _, r := range routes() {
		if h.paths[r.path] == nil {
			h.paths[r.path] = map[string]route{}
		}
		r.call = access.Find(string(config.DoorAdmin), r.method+" "+r.path)
		h.paths[r.path][r.method] = r
	}
	return h
}

type handler struct {
	master Master
	status metrics.StatusFunc
	serves func() bool
	log    *slog.Logger
	doors  *doors.Doors
	paths  map[string]map[string]route // by path and method
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, known := h.paths[r.URL.Path]
	if !known {
		h.notFound(w, r)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // The server leaves the body out.
	}
	rt, ok := methods[method]
	switch {
	case !ok:
		h.wrongMethod(w, r, methods)
	case h.forbidden(w, r, rt):
	case r.ContentLength > maxBody:
		w.Header().Set("Connection", "close")
		sendJSON(w, http.StatusRequestEntityTooLarge, failureOf(errTooLarge()))
	case rt.data && !h.serves():
		rt.refuse(w, "service plane is not active")
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		rt.serve(h, w, r)
	}
}

// routeOf returns the route of a request.
func (h *handler) routeOf(r *http.Request) route {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return h.paths[r.URL.Path][method]
}

// forbidden answers a peer whose role may not ask for a route.
func (h *handler) forbidden(w http.ResponseWriter, r *http.Request, rt route) bool {
	err := h.doors.Access().Check(r.Context(), rt.call)
	if err != nil {
		w.Header().Set("Connection", "close") // The body is not read.
		sendJSON(w, http.StatusForbidden, failureOf(err))
	}
	return err != nil
}

func errTooLarge() error {
	return errs.New(errs.InvalidParams, "admin", "the body is larger than %d bytes", maxBody)
}

// notFound answers as upstream does, and below /api/ in JSON.
func (h *handler) notFound(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		sendJSON(w, http.StatusNotFound, failureOf(errs.New(errs.InvalidParams, "admin", "there is no route %.200q", r.URL.Path)))
		return
	}
	w.Header()["Content-Type"] = nil
	reply(w, http.StatusNotFound, "404 Not Found")
}

func (h *handler) wrongMethod(w http.ResponseWriter, r *http.Request, methods map[string]route) {
	var allow []string
	for m := range methods {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	list := strings.Join(allow, ", ")
	w.Header().Set("Allow", list)
	sendJSON(w, http.StatusMethodNotAllowed,
		failureOf(errs.New(errs.InvalidParams, "admin", "%s does not take %.20q; it takes %s", r.URL.Path, r.Method, list)))
}

func send(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	reply(w, status, body)
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // The client is gone: the error has no recipient.
}
