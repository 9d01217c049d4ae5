package rest

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
)

// Node is what the HTTP port of a node asks of it. Safe for concurrent use.
type Node interface {
	// Mounted reports whether the master knows the node's memory, as far as the node knows.
	Mounted() bool
	// Size is the memory contributed, in bytes.
	Size() uint64
}

// NewNodeHandler serves health and metrics of a node. node returns nil until it is started.
// A probe gets 200 only while the node is mounted; the bodies and codes are upstream's. from
// holds everything; where the metrics of a client are not in it, the summary says that they
// are not available. k and log may be nil.
func NewNodeHandler(node func() Node, from prometheus.Gatherer, k *access.Control, log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	k.Handle(mux, config.DoorHealth, "GET /health", func(w http.ResponseWriter, _ *http.Request) {
		switch n := node(); {
		case n == nil:
			send(w, http.StatusServiceUnavailable, typeJSON, `{"status":"not_initialized","code":1}`)
		case !n.Mounted():
			send(w, http.StatusServiceUnavailable, typeJSON, `{"status":"master_unreachable","code":2}`)
		default:
			send(w, http.StatusOK, typeJSON, `{"status":"healthy","code":0}`)
		}
	})
	k.Handle(mux, config.DoorHealth, "GET /metrics", func(w http.ResponseWriter, _ *http.Request) { sendMetrics(w, from, "", log) })
	k.Handle(mux, config.DoorHealth, "GET /metrics/summary", func(w http.ResponseWriter, _ *http.Request) {
		n := node()
		if n == nil {
			send(w, http.StatusServiceUnavailable, typeText, "client not initialized")
			return
		}
		sum, err := clientTotals(from)
		if err != nil {
			log.Warn("gather metrics", "error", err)
		}
		if sum == nil {
			send(w, http.StatusServiceUnavailable, typeText, "metrics not available")
			return
		}
		send(w, http.StatusOK, typeText, fmt.Sprintf("role=store, mounted=%t, segment_bytes=%d, read_bytes=%.0f, write_bytes=%.0f, rpc_calls=%.0f",
			n.Mounted(), n.Size(), sum["mooncake_transfer_read_bytes"], sum["mooncake_transfer_write_bytes"], sum["mooncake_client_rpc_count"]))
	})
	return mux
}

// clientTotals adds up the counters of each name, nil where there are none of a client.
func clientTotals(from prometheus.Gatherer) (map[string]float64, error) {
	families, err := from.Gather()
	sum, found := map[string]float64{}, false
	for _, f := range families {
		found = found || f.GetName() == "mooncake_transfer_read_bytes"
		for _, m := range f.GetMetric() {
			sum[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	if !found {
		return nil, err
	}
	return sum, err
}
