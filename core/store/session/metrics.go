package session

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
)

// metrics of calls to the master. Sessions with the same registry share them.
type metrics struct {
	calls   *promreg.Labelled[callMetrics]
	down    prometheus.Gauge
	outages prometheus.Counter
}

// callMetrics are those of one kind of call.
type callMetrics struct {
	count   prometheus.Counter
	latency prometheus.Observer
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	r := promreg.Registry{To: to}
	count := promreg.Shared(&r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooncake_client_rpc_count", Help: "Calls to the master."}, []string{"rpc_name"}))
	latency := promreg.Shared(&r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mooncake_client_rpc_latency", Help: "Time of a call to the master in microseconds.",
		Buckets: promreg.Buckets}, []string{"rpc_name"}))
	m := &metrics{
		calls: promreg.NewLabelled(func(rpc string) callMetrics {
			return callMetrics{count.WithLabelValues(rpc), latency.WithLabelValues(rpc)}
		}),
		down:    promreg.Shared(&r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "mooncake_client_master_down", Help: "1 while calls fail at once because the master does not answer."})),
		outages: promreg.Shared(&r, prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_client_master_outages_total", Help: "How often the master stopped answering."})),
	}
	return m, r.Err
}

// Record counts a call to the master that began at t0.
func (s *Session) Record(rpc string, t0 time.Time) {
	m := s.metrics.calls.Of(rpc)
	m.count.Inc()
	promreg.Observe(m.latency, t0)
}
