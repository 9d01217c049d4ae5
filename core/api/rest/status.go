package rest

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// haSummary is what a master without high availability says about it.
const haSummary = "HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, pending=0, mutation_queue=0, batch_commits=0, " +
	"sync_commits=0, skipped=0, checksum_fail=0, etcd_fail=0, watch_disconn=0, state=0"

// StatusLine wraps the master's summary into the line of /metrics/summary and, after
// "Master Admin Metrics: ", of the periodic log.
func StatusLine(masterSummary string) string {
	return "role=leader, state=serving, service_ready=true, master={" + masterSummary + "}, ha={" + haSummary + "}"
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, typeJSON,
		`{"status":"ok","role":"leader","ha_state":"serving","service_ready":true,"leader_address":null,"view_version":null}`)
}

func (h *handler) summary(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, typeMetrics, StatusLine(h.master.Summary()))
}

func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	sendMetrics(w, h.master.Metrics(), h.log)
}

// sendMetrics answers with everything a registry gathers, in Prometheus' text format.
func sendMetrics(w http.ResponseWriter, from prometheus.Gatherer, log *slog.Logger) {
	families, err := from.Gather()
	if err != nil {
		// What could be gathered is still worth having.
		log.Warn("gather metrics", "error", err)
		if len(families) == 0 {
			send(w, http.StatusInternalServerError, typeText, "metrics: "+err.Error())
			return
		}
	}
	var buf bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&buf, f); err != nil {
			log.Warn("write metrics", "metric", f.GetName(), "error", err)
		}
	}
	send(w, http.StatusOK, typeMetrics, buf.String())
}

func isProfile(path string) bool { return strings.HasPrefix(path, "/debug/pprof/") }
