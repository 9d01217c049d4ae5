package session

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
)

// metrics of calls to the master. Sessions with the same registry share them.
type metrics struct {
	rpcCount   *prometheus.CounterVec
	rpcLatency *prometheus.HistogramVec
	down       prometheus.Gauge
	outages    prometheus.Counter
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	r := promreg.Registry{To: to}
	m := &metrics{
		rpcCount: promreg.Shared(&r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooncake_client_rpc_count", Help: "Calls to the master."}, []string{"rpc_name"})),
		rpcLatency: promreg.Shared(&r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mooncake_client_rpc_latency", Help: "Time of a call to the master in microseconds.",
			Buckets: promreg.Buckets}, []string{"rpc_name"})),
		down:    promreg.Shared(&r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "mooncake_client_master_down", Help: "1 while calls fail at once because the master does not answer."})),
		outages: promreg.Shared(&r, prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_client_master_outages_total", Help: "How often the master stopped answering."})),
	}
	return m, r.Err
}

// Record counts a call to the master that began at t0.
func (s *Session) Record(rpc string, t0 time.Time) {
	s.metrics.rpcCount.WithLabelValues(rpc).Inc()
	promreg.Observe(s.metrics.rpcLatency.WithLabelValues(rpc), t0)
}
