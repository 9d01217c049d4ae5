package store

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sessionMetrics of calls to the master. Sessions that share a registry share them.
type sessionMetrics struct {
	rpcCount   *prometheus.CounterVec
	rpcLatency *prometheus.HistogramVec
	down       prometheus.Gauge
	outages    prometheus.Counter
}

func newSessionMetrics(reg prometheus.Registerer) (*sessionMetrics, error) {
	r := registrar{reg: reg}
	m := &sessionMetrics{
		rpcCount: shared(&r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooncake_client_rpc_count", Help: "Calls to the master."}, []string{"rpc_name"})),
		rpcLatency: shared(&r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mooncake_client_rpc_latency", Help: "Time of a call to the master in microseconds.",
			Buckets: latencyBuckets()}, []string{"rpc_name"})),
		down:    shared(&r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "mooncake_client_master_down", Help: "1 while calls fail at once because the master does not answer."})),
		outages: shared(&r, prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_client_master_outages_total", Help: "How often the master stopped answering."})),
	}
	return m, r.err
}

func (m *sessionMetrics) rpc(name string, d time.Duration) {
	m.rpcCount.WithLabelValues(name).Inc()
	m.rpcLatency.WithLabelValues(name).Observe(float64(d.Microseconds()))
}

// shared registers a collector, or returns the one that is registered under its name.
func shared[T prometheus.Collector](r *registrar, c T) T {
	if r.reg == nil || r.err != nil {
		return c
	}
	var there prometheus.AlreadyRegisteredError
	if err := r.reg.Register(c); errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(T); ok {
			return old
		}
		r.err = err
	} else {
		r.err = err
	}
	return c
}
