package member

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func settings(t *testing.T, change func(*config.Store)) config.Store {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleStore})
	require.NoError(t, err)
	change(&loaded.Config.Store)
	return loaded.Config.Store
}

func TestClientSettingsArrive(t *testing.T) {
	s := settings(t, func(s *config.Store) {
		s.TenantID, s.LocalHotCacheSize, s.LocalHotAdmissionThreshold = "blue", 64<<20, 5
	})
	got := (&Member{cfg: s}).clientConfig()
	require.NoError(t, got.Validate())
	require.Equal(t, "blue", got.Tenant)
	require.Equal(t, [3]uint64{64 << 20, 16 << 20, 5}, [3]uint64{got.HotCache.Size, got.HotCache.BlockSize, uint64(got.HotCache.Threshold)})
	s.LocalHotCacheSize = 1 << 20
	require.Equal(t, uint64(1<<20), (&Member{cfg: s}).clientConfig().HotCache.BlockSize, "a block is never larger than the cache")
	counted := newMember(s, nil, nil, newStatus(s), nil)
	require.NotNil(t, counted.deps().Metrics)
	require.Equal(t, "mooncake_cluster", counted.deps().ClusterID)
	s.ClientMetric = false
	require.Nil(t, newMember(s, nil, nil, newStatus(s), nil).deps().Metrics)
}

func TestNodeSettingsArrive(t *testing.T) {
	s := settings(t, func(s *config.Store) { s.UnmountGrace = 20 * time.Second })
	status := newStatus(s)
	n, err := newNode(newMember(s, nil, nil, status, nil), nil, status, AfterJoin)
	require.NoError(t, err)
	require.Equal(t, 20*time.Second, n.cfg.StopGrace)
}

// lines collects log lines and tells of each.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	each chan struct{}
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.each <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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
