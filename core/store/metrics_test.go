package store_test

import (
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store/client"
)

// TestMetricNames pins the names, labels and buckets that dashboards depend on.
func TestMetricNames(t *testing.T) {
	p, _ := newLedgerPool(t)
	m := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	reg := m.labelled(t, "prod")
	value := content("k", 5000)
	require.NoError(t, reg.Put(t.Context(), "k", value, one))
	for _, err := range reg.BatchPut(t.Context(), []string{"l"}, [][]byte{value}, one) {
		require.NoError(t, err)
	}
	_, err := reg.Get(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, reg.BatchGet(t.Context(), []string{"k"})[0].Err)
	all, err := reg.metrics.Gather()
	require.NoError(t, err)
	families := map[string]*dto.MetricFamily{}
	for _, f := range all {
		families[f.GetName()] = f
		for _, x := range f.GetMetric() {
			require.Equal(t, "prod", label(x, "cluster_id"), f.GetName())
			require.Equal(t, "real", label(x, "client_mode"), f.GetName())
		}
	}
	for _, name := range []string{"mooncake_transfer_read_bytes", "mooncake_transfer_write_bytes"} {
		require.InDelta(t, 10_000, families[name].GetMetric()[0].GetCounter().GetValue(), 0, name)
	}
	for _, name := range []string{"put", "get", "batch_put", "batch_get"} {
		h := families["mooncake_transfer_"+name+"_latency"].GetMetric()[0].GetHistogram()
		require.Equal(t, uint64(1), h.GetSampleCount(), name)
		require.InDelta(t, 50, h.GetBucket()[0].GetUpperBound(), 0)
		require.InDelta(t, 2e7, h.GetBucket()[len(h.GetBucket())-1].GetUpperBound(), 0)
	}
	for kind, ops := range map[string][]string{"read": {"batch_get", "get"}, "write": {"batch_put", "put"}} {
		for _, what := range []string{"count", "bytes", "latency"} {
			require.Equal(t, ops, labels(families["mooncake_transfer_"+kind+"_operation_"+what], "op_name"), "%s %s", kind, what)
		}
	}
	require.Subset(t, labels(families["mooncake_client_rpc_count"], "rpc_name"), []string{"BatchGetReplicaList", "BatchPutEnd", "BatchPutStart"})
	require.NotNil(t, families["mooncake_client_rpc_latency"])
	require.NotNil(t, families["mooncake_client_checksum_mismatches_total"])
}

// labelled is another client of the process, of a cluster with a name.
func (m *member) labelled(t *testing.T, cluster string) *member {
	deps := m.deps
	reg := newRegistry()
	deps.Metrics, deps.ClusterID, deps.Session = reg, cluster, nil
	c, err := client.New(client.DefaultConfig(), deps)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(tctx)) })
	return &member{Client: c, metrics: reg}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func labels(f *dto.MetricFamily, name string) []string {
	var out []string
	for _, m := range f.GetMetric() {
		out = append(out, label(m, name))
	}
	slices.Sort(out)
	return out
}
