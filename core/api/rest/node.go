package rest

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Node is what the HTTP port of a node asks of it. Safe for concurrent use.
type Node interface {
	// Mounted reports whether the master knows the node's memory, as far as the node knows.
	Mounted() bool
	// Size is the memory contributed, in bytes.
	Size() uint64
}

// NewNodeHandler serves health and metrics of a node. node returns nil until it is started.
// A probe gets 200 only while the node is mounted; the bodies and codes are upstream's.
// log may be nil.
func NewNodeHandler(node func() Node, from prometheus.Gatherer, log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		switch n := node(); {
		case n == nil:
			send(w, http.StatusServiceUnavailable, typeJSON, `{"status":"not_initialized","code":1}`)
		case !n.Mounted():
			send(w, http.StatusServiceUnavailable, typeJSON, `{"status":"master_unreachable","code":2}`)
		default:
			send(w, http.StatusOK, typeJSON, `{"status":"healthy","code":0}`)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { sendMetrics(w, from, log) })
	mux.HandleFunc("GET /metrics/summary", func(w http.ResponseWriter, _ *http.Request) {
		n := node()
		if n == nil {
			send(w, http.StatusServiceUnavailable, typeText, "client not initialized")
			return
		}
		send(w, http.StatusOK, typeText, fmt.Sprintf("role=store, mounted=%t, segment_bytes=%d", n.Mounted(), n.Size()))
	})
	return mux
}
