package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

// TestTogether: the metrics of two masters are those of one that has what both have.
func TestTogether(t *testing.T) {
	var sets [2]Set
	gauges := [2]Gauges{
		{Used: 7, Capacity: 9, Keys: 3, Clients: 5, Segments: []SegmentGauge{{Name: "a", Used: 1, Capacity: 2, Weight: 0.5}}, Tenants: []model.TenantQuota{{Tenant: "t", Charged: 1, OverQuota: true}}},
		{Used: 1, Capacity: 1, Keys: 4, Clients: 4, Segments: []SegmentGauge{{Name: "a", Used: 3, Capacity: 4, Weight: 1}, {Name: "b", Used: 6}}, Tenants: []model.TenantQuota{{Tenant: "t", Charged: 2}}},
	}
	var masters []prometheus.Gatherer
	for i := range sets {
		sets[i].PutStart.One.Requests.Add(i + 1)
		sets[i].RPC.Observe("PutStart", time.Duration(i+1)*time.Millisecond)
		masters = append(masters, NewRegistry(&sets[i], func() Gauges { return gauges[i] }))
	}
	families, err := Together(masters).Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			require.NotContains(t, got, name)
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if b := m.GetHistogram().GetBucket(); len(b) > 0 && m.GetHistogram().GetSampleCount() > 0 {
				require.Equal(t, m.GetHistogram().GetSampleCount(), b[len(b)-1].GetCumulativeCount())
			}
		}
	}
	for name, want := range map[string]float64{
		"master_allocated_bytes": 8, "master_total_capacity_bytes": 10, "master_key_count": 7, "master_active_clients": 5, "master_put_start_requests_total": 3,
		"segment_allocated_bytes/a": 4, "segment_allocated_bytes/b": 6, "segment_weight/a": 1, "mooncake_tenant_quota_charged_bytes/t": 3,
		"mooncake_tenant_quota_over_quota/t": 1, "master_rpc_latency_seconds/PutStart": 2,
	} {
		require.InDelta(t, want, got[name], 0, name)
	}
}
