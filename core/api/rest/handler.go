package rest

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
)

// Options are the settings of the handler; the zero value is usable.
type Options struct {
	// Profiling serves /debug/pprof. Profiles cost time and show what runs here: only for
	// ports that strangers cannot reach.
	Profiling bool
	// Logger, nil for none.
	Logger *slog.Logger
}

// Content types as upstream sends them.
const (
	typeText    = "text/plain; charset=utf-8"
	typeMetrics = "text/plain; version=0.0.4"
	typeJSON    = "application/json; charset=utf-8"
)

// maxBody bounds the body of a request; no route reads one.
const maxBody = 1 << 20

// NewHandler serves m. The server around it bounds times and connections; the handler
// streams long answers and extends the time for writing while the reader keeps up.
func NewHandler(m Master, opts Options) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{master: m, log: opts.Logger}
	routes := map[string]http.HandlerFunc{
		"GET /health":              h.health,
		"GET /role":                fixed(typeText, "leader"),
		"GET /ha_status":           fixed(typeText, "serving"),
		"GET /leader":              fixed(typeJSON, `{"present":false,"leader_address":null,"view_version":null}`),
		"GET /metrics":             h.metrics,
		"GET /metrics/summary":     h.summary,
		"GET /query_key":           h.queryKey,
		"GET /batch_query_keys":    h.batchQueryKeys,
		"GET /get_all_keys":        h.allKeys,
		"GET /get_all_segments":    h.allSegments,
		"GET /get_segments_detail": h.segmentsDetail,
		"GET /query_segment":       h.querySegment,
		"POST /api/v1/remove_all":  h.removeAll,
	}
	if opts.Profiling {
		routes["GET /debug/pprof/cmdline"] = pprof.Cmdline
		routes["GET /debug/pprof/profile"] = pprof.Profile
		routes["GET /debug/pprof/symbol"] = pprof.Symbol
		routes["GET /debug/pprof/trace"] = pprof.Trace
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if route, ok := routes[r.Method+" "+r.URL.Path]; ok {
			route(w, r)
			return
		}
		if opts.Profiling && r.Method == http.MethodGet && isProfile(r.URL.Path) {
			pprof.Index(w, r)
			return
		}
		w.Header()["Content-Type"] = nil
		reply(w, http.StatusNotFound, "404 Not Found")
	})
}

type handler struct {
	master Master
	log    *slog.Logger
}

func fixed(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { send(w, http.StatusOK, contentType, body) }
}

func send(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	reply(w, status, body)
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // The client is gone; nobody is left to tell.
}
