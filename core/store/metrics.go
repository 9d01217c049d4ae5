package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// metrics of a client. The names that exist upstream are upstream's; latencies are in
// microseconds, as they are there.
type metrics struct {
	readBytes, writeBytes        prometheus.Counter
	put, get, batchPut, batchGet prometheus.Observer
	reads, writes                opMetrics

	mismatches, dropped, expired, failovers, existed, noSpace, repeated, unrevoked prometheus.Counter
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
		reads:      r.operations("read"),
		writes:     r.operations("write"),
		mismatches: r.counter("mooncake_client_checksum_mismatches_total", "Copies of objects whose bytes did not have the checksum of the object."),
		dropped:    r.counter("mooncake_client_damaged_objects_removed_total", "Objects removed because none of their copies had the bytes that were put."),
		expired:    r.counter("mooncake_client_leases_expired_total", "Reads thrown away because they outlived their lease."),
		failovers:  r.counter("mooncake_client_replica_failovers_total", "Reads that went on with another copy of the object."),
		existed:    r.counter("mooncake_client_puts_existing_total", "Puts of keys that were there already."),
		noSpace:    r.counter("mooncake_client_puts_without_space_total", "Puts for which the pool had no room."),
		repeated:   r.counter("mooncake_client_puts_repeated_total", "Puts that the client repeated elsewhere because their transfers ended in doubt, or a node was gone."),
		unrevoked:  r.counter("mooncake_client_puts_unrevoked_total", "Failed puts left to the master's timeout because they could not be revoked."),
	}
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

// opMetrics are counts of reads or writes by the name of the operation.
type opMetrics struct {
	count, bytes *prometheus.CounterVec
	latency      *prometheus.HistogramVec
}

func (r *registrar) operations(kind string) opMetrics {
	label, name := []string{"op_name"}, "mooncake_transfer_"+kind+"_operation_"
	o := opMetrics{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "count", Help: "Operations that " + kind + "."}, label),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "bytes", Help: "Bytes of operations that " + kind + "."}, label),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name + "latency", Help: "Time of operations that " + kind + ", in microseconds.",
			Buckets: latencyBuckets()}, label),
	}
	r.add(o.count)
	r.add(o.bytes)
	r.add(o.latency)
	return o
}

// done notes an operation that began at t0.
func (o opMetrics) done(op string, bytes uint64, t0 time.Time) {
	o.count.WithLabelValues(op).Inc()
	o.bytes.WithLabelValues(op).Add(float64(bytes))
	observe(o.latency.WithLabelValues(op), t0)
}

// cache shows what the hot cache did.
func (m *metrics) cache(reg prometheus.Registerer, h *hotcache.Cache) {
	r := registrar{reg: reg}
	r.read("mooncake_client_hot_cache_hits_total", "Reads served by the hot cache.", func() uint64 { return h.Stats().Hits })
	r.read("mooncake_client_hot_cache_fills_total", "Objects taken into the hot cache.", func() uint64 { return h.Stats().Fills })
	r.read("mooncake_client_hot_cache_dropped_total", "Objects that were to be taken in while the queue was full.", func() uint64 { return h.Stats().Dropped })
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooncake_client_hot_cache_bytes", Help: "Memory in use by the hot cache."},
		func() float64 { return float64(h.Stats().Bytes) }))
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
