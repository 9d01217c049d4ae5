package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// labelDescs are the metrics with labels. A series appears with the first segment, tenant
// or call that it is about.
type labelDescs struct {
	segmentUsed, segmentCapacity, segmentWeight         *prometheus.Desc
	nofUsed, nofCapacity                                *prometheus.Desc
	requested, effective, charged, closed, over, policy *prometheus.Desc
	rejects, evicted                                    *prometheus.Desc
	rpc, foreign                                        *prometheus.Desc
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
	}
}

func quotaRejects() *prometheus.Desc {
	return prometheus.NewDesc("mooncake_tenant_quota_reject_total", "Number of puts refused for the tenant's quota, by reason.",
		[]string{"tenant_id", "reason"}, nil)
}

func (d labelDescs) describe(ch chan<- *prometheus.Desc) {
	for _, x := range []*prometheus.Desc{
		d.segmentUsed, d.segmentCapacity, d.segmentWeight, d.nofUsed, d.nofCapacity,
		d.requested, d.effective, d.charged, d.closed, d.over, d.policy, d.rejects, d.evicted, d.rpc, d.foreign,
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
