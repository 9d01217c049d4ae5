package assembly

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/transfer"
)

// metrics are the metrics of an engine: by network device rather than by peer, so that their number
// does not grow with the pool.
type metrics struct{ engine *transfer.Engine }

// Metrics returns the metrics of an engine.
func Metrics(e *transfer.Engine) prometheus.Collector { return metrics{e} }

var (
	engineBytes = prometheus.NewDesc("mooncake_transfer_bytes_total", "Bytes that arrived.", []string{"direction"}, nil)
	engineTries = prometheus.NewDesc("mooncake_transfer_retries_total",
		"Pieces that were submitted again: on the same path, on another one of the transport, on another transport.", []string{"path"}, nil)
	engineLost  = prometheus.NewDesc("mooncake_transfer_quarantined_total", "Pieces whose memory may still be touched.", nil, nil)
	railCount   = prometheus.NewDesc("mooncake_transfer_rails", "Paths between a device of this machine and one of a peer, by state.", []string{"transport", "device", "state"}, nil)
	deviceBytes = prometheus.NewDesc("mooncake_transfer_device_inflight_bytes", "Bytes in flight over a device of this machine.", []string{"device"}, nil)
	deviceSpeed = prometheus.NewDesc("mooncake_transfer_device_speed_bytes", "Measured speed of the fastest path of a device, in bytes per second.", []string{"device"}, nil)
)

// Describe implements prometheus.Collector.
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{engineBytes, engineTries, engineLost, railCount, deviceBytes, deviceSpeed} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	e := m.engine
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := e.Stats()
	counter(engineBytes, s.ReadBytes, "read")
	counter(engineBytes, s.WrittenBytes, "write")
	counter(engineTries, s.Retries-min(s.Retries, s.Reroutes+s.Failovers), "same")
	counter(engineTries, s.Reroutes, "device")
	counter(engineTries, s.Failovers, "transport")
	counter(engineLost, s.Quarantined)
	rails := map[[3]string]int{}
	for _, l := range e.Paths() {
		for _, r := range l.Rails {
			rails[[3]string{l.Transport, r.Local, r.State}]++
		}
	}
	for k, n := range rails {
		gauge(railCount, float64(n), k[:]...)
	}
	for _, d := range e.Devices() {
		gauge(deviceBytes, float64(d.Inflight), d.Device)
		gauge(deviceSpeed, d.Speed, d.Device)
	}
}
