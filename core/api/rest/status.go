package rest

import (
	"bytes"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// leadership is null where no leader is known.
type leadership struct {
	Address *string `json:"leader_address"`
	View    *uint64 `json:"view_version"`
}

func (h *handler) leadership() leadership {
	s := h.status()
	if s.Leader == "" {
		return leadership{}
	}
	return leadership{&s.Leader, &s.View}
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	s := h.status()
	sendJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		Role   string `json:"role"`
		State  string `json:"ha_state"`
		Ready  bool   `json:"service_ready"`
		leadership
	}{"ok", s.Role, s.State, s.Ready, h.leadership()})
}

func (h *handler) role(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, typeText, h.status().Role)
}

func (h *handler) haStatus(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, typeText, h.status().State)
}

func (h *handler) leader(w http.ResponseWriter, _ *http.Request) {
	l := h.leadership()
	sendJSON(w, http.StatusOK, struct {
		Present bool `json:"present"`
		leadership
	}{l.Address != nil, l})
}

func (h *handler) kvEvents(w http.ResponseWriter, _ *http.Request) {
	s := h.master.KVEvents()
	sendJSON(w, http.StatusOK, struct {
		Enabled bool   `json:"enabled"`
		Batches uint64 `json:"published_batches"`
		Events  uint64 `json:"published_events"`
		Dropped uint64 `json:"dropped_events"`
		Skipped uint64 `json:"skipped_unparsed_keys"`
	}{s.Enabled, s.Batches, s.Events, s.Dropped, s.Skipped})
}

func (h *handler) summary(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, typeMetrics, h.status().Line(h.master.Summary()))
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
