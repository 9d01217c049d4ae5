package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/transfer"
)

// metrics of a client. The names that exist upstream are upstream's; latencies are in
// microseconds, as they are there.
type metrics struct {
	readBytes, writeBytes        prometheus.Counter
	put, get, batchPut, batchGet prometheus.Observer
	rpcCount                     *prometheus.CounterVec
	rpcLatency                   *prometheus.HistogramVec

	mismatches, dropped, expired, failovers, existed, noSpace, unrevoked prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, e *transfer.Engine) (*metrics, error) {
	r := registrar{reg: reg}
	m := &metrics{
		readBytes:  r.counter("mooncake_transfer_read_bytes", "Bytes read from the pool."),
		writeBytes: r.counter("mooncake_transfer_write_bytes", "Bytes written to the pool, all copies counted."),
		put:        r.latency("mooncake_transfer_put_latency", "Time of a put in microseconds."),
		get:        r.latency("mooncake_transfer_get_latency", "Time of a get in microseconds."),
		batchPut:   r.latency("mooncake_transfer_batch_put_latency", "Time of a batch put in microseconds."),
		batchGet:   r.latency("mooncake_transfer_batch_get_latency", "Time of a batch get in microseconds."),
		rpcCount:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooncake_client_rpc_count", Help: "Calls to the master."}, []string{"rpc_name"}),
		rpcLatency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mooncake_client_rpc_latency", Help: "Time of a call to the master in microseconds.",
			Buckets: latencyBuckets()}, []string{"rpc_name"}),
		mismatches: r.counter("mooncake_client_checksum_mismatches_total", "Copies of objects whose bytes did not have the checksum of the object."),
		dropped:    r.counter("mooncake_client_damaged_objects_removed_total", "Objects removed because none of their copies had the bytes that were put."),
		expired:    r.counter("mooncake_client_leases_expired_total", "Reads thrown away because they outlived their lease."),
		failovers:  r.counter("mooncake_client_replica_failovers_total", "Reads that went on with another copy of the object."),
		existed:    r.counter("mooncake_client_puts_existing_total", "Puts of keys that were there already."),
		noSpace:    r.counter("mooncake_client_puts_without_space_total", "Puts for which the pool had no room."),
		unrevoked:  r.counter("mooncake_client_puts_unrevoked_total", "Failed puts left to the master's timeout because a peer may still write."),
	}
	r.add(m.rpcCount)
	r.add(m.rpcLatency)
	r.read("mooncake_client_local_copies_total", "Transfers served by a copy within the process.", func() uint64 { return e.Stats().LocalCopies })
	r.read("mooncake_client_staged_bytes_total", "Bytes that went through a staging buffer.", func() uint64 { return e.Stats().StagedBytes })
	r.read("mooncake_client_transfer_retries_total", "Slices submitted again.", func() uint64 { return e.Stats().Retries })
	r.read("mooncake_client_transfer_failovers_total", "Slices submitted again on another transport.", func() uint64 { return e.Stats().Failovers })
	r.read("mooncake_client_transfer_quarantined_total", "Slices whose memory may still be touched after they failed.", func() uint64 { return e.Stats().Quarantined })
	return m, r.err
}

// latencyBuckets spans 50 microseconds to 20 seconds.
func latencyBuckets() []float64 {
	return []float64{50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7}
}

func (m *metrics) rpc(name string, d time.Duration) {
	m.rpcCount.WithLabelValues(name).Inc()
	m.rpcLatency.WithLabelValues(name).Observe(float64(d.Microseconds()))
}

func observe(o prometheus.Observer, t0 time.Time) { o.Observe(float64(time.Since(t0).Microseconds())) }

// registrar makes collectors and keeps the first failure to register one.
type registrar struct {
	reg prometheus.Registerer
	err error
}

func (r *registrar) add(c prometheus.Collector) {
	if r.reg != nil && r.err == nil {
		r.err = r.reg.Register(c)
	}
}

func (r *registrar) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.add(c)
	return c
}

func (r *registrar) latency(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets()})
	r.add(h)
	return h
}

func (r *registrar) read(name, help string, f func() uint64) {
	r.add(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f()) }))
}
