package rest

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/observe"
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
		Etcd string `json:"etcd_member,omitempty"`
	}{"ok", s.Role, s.State, s.Ready, h.leadership(), s.Etcd})
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

// metrics has rows of tenants for those who may see them: an identity of a tenant sees its own only.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	sendMetrics(w, prometheus.Gatherers{h.master.Metrics(), h.doors}, access.TenantOf(r.Context()), h.log)
}

// ofProcess is what the metrics of every role have.
var ofProcess = func() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "mooncake_log_lines_lost_total", Help: "Number of log lines that could not be written, to a full disk for example.",
	}, func() float64 { return float64(observe.LinesLost()) }))
	return r
}()

// sendMetrics answers with everything a registry gathers, and ofProcess, in Prometheus' text format. Of rows with
// a tenant it leaves out those of others than tenant, if there is one.
func sendMetrics(w http.ResponseWriter, from prometheus.Gatherer, tenant model.Tenant, log *slog.Logger) {
	families, err := prometheus.Gatherers{from, ofProcess}.Gather()
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
		if tenant != "" {
			f.Metric = slices.DeleteFunc(slices.Clone(f.Metric), func(m *dto.Metric) bool { return ofOther(m, tenant) })
			if len(f.Metric) == 0 {
				continue
			}
		}
		if _, err := expfmt.MetricFamilyToText(&buf, f); err != nil {
			log.Warn("write metrics", "metric", f.GetName(), "error", err)
		}
	}
	send(w, http.StatusOK, typeMetrics, buf.String())
}

// ofOther reports a row of another tenant.
func ofOther(m *dto.Metric, tenant model.Tenant) bool {
	return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "tenant_id" && l.GetValue() != tenant })
}

// Figures are the numbers of the summary.
type Figures struct {
	Role  string `json:"role"`
	State string `json:"state"`
	Ready bool   `json:"service_ready"`
	// Now are what the master holds at the moment, Total what it counted since it started.
	Now   map[string]float64 `json:"now"`
	Total map[string]float64 `json:"total"`
	// Requests are calls by operation, as the metrics master_<operation>_requests_total.
	Requests map[string]Calls `json:"requests"`
}

// Calls counts the calls of one operation.
type Calls struct {
	All    float64 `json:"all"`
	Failed float64 `json:"failed"`
}

// figures maps names of the answer to metrics.
func figures() (now, total map[string]string) {
	return map[string]string{
			"used_bytes": "master_allocated_bytes", "capacity_bytes": "master_total_capacity_bytes",
			"tier_used_bytes": "master_allocated_file_size_bytes", "tier_capacity_bytes": "master_total_file_capacity_bytes",
			"keys": "master_key_count", "soft_pinned_keys": "master_soft_pin_key_count", "readable_keys": "mem_cache_nums_",
			"clients": "master_active_clients", "staging_bytes": "master_put_start_discarded_staging_size",
			"tasks_pending": "master_tasks_pending", "tasks_processing": "master_tasks_processing",
		}, map[string]string{
			"keys_read": "total_get_nums_", "keys_hit": "valid_get_nums_", "bytes_hit": "mem_cache_hit_bytes_total",
			"evictions": "master_attempted_evictions_total", "evictions_successful": "master_successful_evictions_total",
			"evicted_keys": "master_evicted_key_count", "evicted_bytes": "master_evicted_size_bytes",
			"allocations_failed": "master_put_start_alloc_failures_total", "allocations_partial": "master_put_start_partial_allocations_total",
			"puts_discarded": "master_put_start_discard_cnt", "puts_released": "master_put_start_release_cnt",
			"upserts": "master_upserts_total", "drained_bytes": "master_drained_bytes_total",
		}
}

func (h *handler) summaryJSON(a *asked) (Figures, error) {
	families, err := h.master.Metrics().Gather()
	if err != nil {
		h.log.Warn("gather metrics", "error", err) // What could be gathered is still worth having.
	}
	values := map[string]float64{}
	for _, f := range families {
		if v, ok := single(f); ok {
			values[f.GetName()] = v
		}
	}
	s := h.status()
	now, total := figures()
	return Figures{
		Role: s.Role, State: s.State, Ready: s.Ready,
		Now: pick(values, now), Total: pick(values, total), Requests: calls(values),
	}, a.err
}

// single is the value of a metric without labels that is one number.
func single(f *dto.MetricFamily) (float64, bool) {
	list := f.GetMetric()
	if len(list) != 1 || len(list[0].GetLabel()) > 0 || f.GetType() == dto.MetricType_HISTOGRAM {
		return 0, false
	}
	return list[0].GetCounter().GetValue() + list[0].GetGauge().GetValue(), true
}

func pick(values map[string]float64, names map[string]string) map[string]float64 {
	out := make(map[string]float64, len(names))
	for name, metric := range names {
		out[name] = values[metric]
	}
	return out
}

// calls finds the pairs master_<operation>_requests_total and _failures_total.
func calls(values map[string]float64) map[string]Calls {
	const prefix, requests = "master_", "_requests_total"
	out := map[string]Calls{}
	for name, n := range values {
		if len(name) > len(prefix)+len(requests) && name[:len(prefix)] == prefix && name[len(name)-len(requests):] == requests {
			op := name[len(prefix) : len(name)-len(requests)]
			out[op] = Calls{All: n, Failed: values[prefix+op+"_failures_total"]}
		}
	}
	return out
}
