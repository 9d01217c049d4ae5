package metrics

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// labelDescs are the metrics with labels. A series appears with the first segment, tenant
// or call that it is about.
type labelDescs struct {
	segmentUsed, segmentCapacity, segmentWeight         *prometheus.Desc
	nofUsed, nofCapacity                                *prometheus.Desc
	requested, effective, charged, closed, over, policy *prometheus.Desc
	rejects, evicted                                    *prometheus.Desc
	rpc, foreign, connClosed                            *prometheus.Desc
}

func labelled() labelDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	quota := func(name, help string) *prometheus.Desc {
		return desc("mooncake_tenant_quota_"+name, help, "tenant_id")
	}
	return labelDescs{
		segmentUsed:     desc("segment_allocated_bytes", "Bytes that objects occupy in the segments of this name.", "segment"),
		segmentCapacity: desc("segment_total_capacity_bytes", "Size in bytes of the segments of this name.", "segment"),
		segmentWeight:   desc("segment_weight", "Share of new objects that the segment gets beside a healthy one, 0 to 1.", "segment"),
		nofUsed:         desc("nof_segment_allocated_bytes", noFeature, "segment"),
		nofCapacity:     desc("nof_segment_total_capacity_bytes", noFeature, "segment"),
		requested:       quota("requested_bytes", "Quota of the tenant in bytes as the policy says."),
		effective:       quota("effective_bytes", "Quota of the tenant in bytes as the capacity allows."),
		charged:         quota("charged_bytes", "Bytes that the tenant's objects occupy."),
		closed:          quota("admission_closed", "1 for a tenant that may write no more since it was taken out of the policy."),
		over:            quota("over_quota", "1 for a tenant that occupies more than its effective quota."),
		policy:          quota("explicit_policy", "1 for a tenant that the policy names."),
		rejects:         quotaRejects(),
		evicted:         desc("mooncake_tenant_evict_bytes_total", "Bytes of the tenant's objects evicted to keep its quota.", "tenant_id"),
		rpc:             desc("master_rpc_latency_seconds", "How long the master took to answer calls, by method.", "method"),
		foreign:         desc("master_foreign_connections_total", "Number of connections to the RPC port that were turned away, by what they spoke.", "protocol"),
		connClosed:      desc("master_connections_closed_total", "Number of connections to the RPC port that were closed or refused because there were too many.", "reason"),
	}
}

func quotaRejects() *prometheus.Desc {
	return prometheus.NewDesc("mooncake_tenant_quota_reject_total", "Number of puts refused for the tenant's quota, by reason.",
		[]string{"tenant_id", "reason"}, nil)
}

func (d labelDescs) describe(ch chan<- *prometheus.Desc) {
	for _, x := range []*prometheus.Desc{
		d.segmentUsed, d.segmentCapacity, d.segmentWeight, d.nofUsed, d.nofCapacity,
		d.requested, d.effective, d.charged, d.closed, d.over, d.policy, d.rejects, d.evicted, d.rpc, d.foreign, d.connClosed,
	} {
		ch <- x
	}
}

func (d labelDescs) collect(ch chan<- prometheus.Metric, s *Set, g *Gauges) {
	gauge := func(desc *prometheus.Desc, v float64, name string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, label(name))
	}
	for _, x := range g.Segments {
		gauge(d.segmentUsed, float64(x.Used), x.Name)
		gauge(d.segmentCapacity, float64(x.Capacity), x.Name)
		gauge(d.segmentWeight, x.Weight, x.Name)
	}
	for _, t := range g.Tenants {
		gauge(d.requested, float64(t.Requested), t.Tenant)
		gauge(d.effective, float64(t.Effective), t.Tenant)
		gauge(d.charged, float64(t.Charged), t.Tenant)
		gauge(d.closed, truth(t.AdmissionClosed), t.Tenant)
		gauge(d.over, truth(t.OverQuota), t.Tenant)
		gauge(d.policy, truth(t.ExplicitPolicy), t.Tenant)
	}
	count := func(desc *prometheus.Desc) func([]string, uint64) {
		return func(values []string, n uint64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), values...)
		}
	}
	s.TenantRejects.each(count(d.rejects))
	s.TenantEvictedBytes.each(count(d.evicted))
	s.ForeignConnections.each(count(d.foreign))
	s.ConnectionsClosed.each(count(d.connClosed))
	s.RPC.each(func(method string, t *Durations) {
		ch <- t.h.metric(d.rpc, durationBounds, float64(time.Second), method)
	})
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The most series of one labelled metric. What comes after them counts under "other":
// names come from callers, and a scrape has to stay of bounded size.
const (
	maxLabelled = 2048
	maxMethods  = 128
	other       = "other"
)

// Labelled is a counter for each combination of label values. Full, it counts the tenants
// that it does not know under the name "other".
type Labelled struct {
	mu     sync.Mutex
	counts map[string]uint64 // by the values, joined with NUL
}

// Add adds n for the values of the labels, one for each, the tenant first.
func (l *Labelled) Add(n uint64, values ...string) {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(label(v))
	}
	key := b.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]uint64{}
	}
	if _, known := l.counts[key]; !known && len(l.counts) >= maxLabelled {
		_, rest, _ := strings.Cut(key, "\x00")
		key = strings.TrimSuffix(other+"\x00"+rest, "\x00")
	}
	l.counts[key] += n
}

// each calls do for every series, outside the lock.
func (l *Labelled) each(do func(values []string, n uint64)) {
	l.mu.Lock()
	keys, counts := make([]string, 0, len(l.counts)), make([]uint64, 0, len(l.counts))
	for k, n := range l.counts {
		keys, counts = append(keys, k), append(counts, n)
	}
	l.mu.Unlock()
	for i, k := range keys {
		do(strings.Split(k, "\x00"), counts[i])
	}
}

// Methods is a histogram of times for each method of an API.
type Methods struct {
	times sync.Map // name to *Durations
	mu    sync.Mutex
	n     int
}

// Observe counts one call of a method, which took some time. It does not wait.
func (m *Methods) Observe(method string, took time.Duration) {
	d, ok := m.times.Load(method)
	if !ok {
		d = m.add(method)
	}
	d.(*Durations).Observe(took)
}

func (m *Methods) add(method string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n >= maxMethods {
		method = other
	}
	d, known := m.times.LoadOrStore(method, new(Durations))
	if !known {
		m.n++
	}
	return d
}

func (m *Methods) each(do func(method string, d *Durations)) {
	m.times.Range(func(k, v any) bool {
		do(label(k.(string)), v.(*Durations))
		return true
	})
}

// label makes a name fit to be the value of a label, which has to be UTF-8; it keeps
// names apart.
func label(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, "\x00") {
		return name
	}
	return fmt.Sprintf("%q", name)
}
