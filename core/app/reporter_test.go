package app

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestClientSettingsArrive(t *testing.T) {
	p := &peer{fabric: fabric{cfg: settings(t, func(c *config.Config) {
		c.Store.TenantID, c.Store.LocalHotCacheSize, c.Store.LocalHotAdmissionThreshold = "blue", 64<<20, 5
	})}}
	got := p.clientConfig()
	require.NoError(t, got.Validate())
	require.Equal(t, "blue", got.Tenant)
	require.Equal(t, [3]uint64{64 << 20, 16 << 20, 5}, [3]uint64{got.HotCache.Size, got.HotCache.BlockSize, uint64(got.HotCache.Threshold)})
	p.cfg.Store.LocalHotCacheSize = 1 << 20
	require.Equal(t, uint64(1<<20), p.clientConfig().HotCache.BlockSize, "a block is never larger than the cache")
	require.Nil(t, p.deps().Metrics, "nothing is counted")
	counted, err := newPeer(settings(t, nil), builtins(), quiet)
	require.NoError(t, err)
	require.NotNil(t, counted.deps().Metrics)
	require.Equal(t, "mooncake_cluster", counted.deps().ClusterID)
	silent, err := newPeer(settings(t, func(c *config.Config) { c.Store.ClientMetric = false }), builtins(), quiet)
	require.NoError(t, err)
	require.Nil(t, silent.deps().Metrics)
}

func TestReporterWritesWhatWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		read := prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_transfer_read_bytes"})
		gets := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mooncake_client_rpc_latency"}, []string{"rpc_name"})
		reg.MustRegister(read, gets)
		out := &lines{each: make(chan struct{}, 16)}
		s := config.Store{ClientMetricInterval: 2 * time.Second, ClientMetricBandwidth: true}
		r := startReporter(reg, s, slog.New(slog.NewTextHandler(out, nil)))
		read.Add(4000)
		gets.WithLabelValues("a").Observe(10)
		gets.WithLabelValues("b").Observe(30)
		time.Sleep(3 * time.Second)
		require.Contains(t, out.String(), "read_bytes=4000 read_bytes_per_second=2000 ")
		require.Contains(t, out.String(), "rpc_count=2 rpc_mean_us=20")
		read.Add(1000)
		time.Sleep(2 * time.Second)
		require.Contains(t, out.String(), "read_bytes=5000 read_bytes_per_second=500 ")
		r.stop()
		s.ClientMetricBandwidth = false
		quietLines := &lines{each: make(chan struct{}, 16)}
		r = startReporter(reg, s, slog.New(slog.NewTextHandler(quietLines, nil)))
		time.Sleep(3 * time.Second)
		r.stop()
		require.Contains(t, quietLines.String(), "read_bytes=5000 write_bytes=0 ")
	})
}
