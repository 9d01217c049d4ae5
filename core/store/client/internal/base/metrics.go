package base

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// Metrics of a client. The names that exist upstream are upstream's; latencies are in microseconds,
// as they are there.
type Metrics struct {
	ReadBytes, WriteBytes        prometheus.Counter
	Put, Get, BatchPut, BatchGet prometheus.Observer
	Reads, Writes                Operations

	Mismatches, Dropped, Expired, Waited, Failovers, Stalled, Avoided, Existed, NoSpace, Repeated, Unrevoked prometheus.Counter
	TierBytes, TierFailures, Unopened                                                                        prometheus.Counter
	// TierReads counts the reads of an object from a tier, StageCalls the calls to nodes that stage what is read there.
	TierReads, StageCalls atomic.Uint64
}

func newMetrics(to prometheus.Registerer, e *transfer.Engine) (*Metrics, error) {
	r := promreg.Registry{To: to}
	m := &Metrics{
		ReadBytes:  r.Counter("mooncake_transfer_read_bytes", "Bytes read from the pool."),
		WriteBytes: r.Counter("mooncake_transfer_write_bytes", "Bytes written to the pool, all replicas counted."),
		Put:        r.Latency("mooncake_transfer_put_latency", "Time of a put in microseconds."),
		Get:        r.Latency("mooncake_transfer_get_latency", "Time of a get in microseconds."),
		BatchPut:   r.Latency("mooncake_transfer_batch_put_latency", "Time of a batch put in microseconds."),
		BatchGet:   r.Latency("mooncake_transfer_batch_get_latency", "Time of a batch get in microseconds."),
		Reads:      operations(&r, "read"),
		Writes:     operations(&r, "write"),
		Mismatches: r.Counter("mooncake_client_checksum_mismatches_total", "Replicas of objects whose bytes did not have the checksum of the object."),
		Dropped:    r.Counter("mooncake_client_damaged_objects_removed_total", "Objects removed because none of their replicas had the bytes that were put."),
		Expired:    r.Counter("mooncake_client_leases_expired_total", "Reads thrown away because they outlived their lease."),
		Waited:     r.Counter("mooncake_client_refused_reads_repeated_total", "Reads repeated because the node of the last copy had just begun to refuse connections."),
		Failovers:  r.Counter("mooncake_client_replica_failovers_total", "Reads that went on with another replica of the object."),
		Stalled:    r.Counter("mooncake_client_replica_stalls_total", "Reads that left a replica for another one because its node was silent for a moment."),
		Avoided:    r.Counter("mooncake_client_replicas_avoided_total", "Reads that began with another replica because the node of one had failed or been silent."),
		Existed:    r.Counter("mooncake_client_puts_existing_total", "Puts of keys that existed already."),
		NoSpace:    r.Counter("mooncake_client_puts_without_space_total", "Puts for which the pool had no space."),
		Repeated:   r.Counter("mooncake_client_puts_repeated_total", "Puts that the client retried elsewhere because their transfers were indeterminate, or a node was gone."),
		Unrevoked:  r.Counter("mooncake_client_puts_unrevoked_total", "Failed puts left to the master's timeout because they could not be revoked."),

		Unopened:     r.Counter("mooncake_client_unopened_objects_total", "Replicas of objects that could not be opened: unsealed, damaged or forged, or sealed with a key that the client does not have."),
		TierBytes:    r.Counter("mooncake_client_tier_read_bytes_total", "Bytes read from storage tiers."),
		TierFailures: r.Counter("mooncake_client_tier_read_failures_total", "Reads of a replica on a storage tier that its node could not stage, or that took longer than the node keeps it."),
	}
	r.Count("mooncake_client_tier_reads_total", "Reads of an object from a storage tier.", m.TierReads.Load)
	r.Count("mooncake_client_tier_stage_calls_total", "Calls to nodes that stage what is read from storage tiers.", m.StageCalls.Load)
	r.Count("mooncake_client_local_copies_total", "Transfers served by a copy within the process.", func() uint64 { return e.Stats().LocalCopies })
	r.Count("mooncake_client_staged_bytes_total", "Bytes that went through a staging buffer.", func() uint64 { return e.Stats().StagedBytes })
	r.Count("mooncake_client_transfer_retries_total", "Slices submitted again.", func() uint64 { return e.Stats().Retries })
	r.Count("mooncake_client_transfer_failovers_total", "Slices submitted again on another transport.", func() uint64 { return e.Stats().Failovers })
	r.Count("mooncake_client_transfer_quarantined_total", "Slices whose memory may still be touched after they failed.", func() uint64 { return e.Stats().Quarantined })
	return m, r.Err
}

// ShowCache registers the metrics of the hot cache. It ignores errors: if there are any, newMetrics
// has returned one before.
func ShowCache(to prometheus.Registerer, h *hotcache.Cache) {
	r := promreg.Registry{To: to}
	r.Count("mooncake_client_hot_cache_hits_total", "Reads served by the hot cache.", func() uint64 { return h.Stats().Hits })
	r.Count("mooncake_client_hot_cache_fills_total", "Objects added to the hot cache.", func() uint64 { return h.Stats().Fills })
	r.Count("mooncake_client_hot_cache_dropped_total", "Objects that were to be added while the queue was full.", func() uint64 { return h.Stats().Dropped })
	r.Gauge("mooncake_client_hot_cache_bytes", "Memory in use by the hot cache.", func() float64 { return float64(h.Stats().Bytes) })
}

// Operations counts reads or writes by the name of the operation.
type Operations struct{ by *promreg.Labelled[operation] }

type operation struct {
	count, bytes prometheus.Counter
	latency      prometheus.Observer
}

func operations(r *promreg.Registry, kind string) Operations {
	label, name := []string{"op_name"}, "mooncake_transfer_"+kind+"_operation_"
	count := promreg.Add(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "count", Help: "Operations that " + kind + "."}, label))
	bytes := promreg.Add(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + "bytes", Help: "Bytes of operations that " + kind + "."}, label))
	latency := promreg.Add(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name + "latency", Help: "Time of operations that " + kind + ", in microseconds.",
		Buckets: promreg.Buckets}, label))
	return Operations{promreg.NewLabelled(func(op string) operation {
		return operation{count.WithLabelValues(op), bytes.WithLabelValues(op), latency.WithLabelValues(op)}
	})}
}

// Done records an operation that began at t0.
func (o Operations) Done(op string, bytes uint64, t0 time.Time) {
	m := o.by.Of(op)
	m.count.Inc()
	m.bytes.Add(float64(bytes))
	promreg.Observe(m.latency, t0)
}
