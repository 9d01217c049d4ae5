package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counters adds what is counted beside the calls.
func (l *list) counters(s *Set) {
	l.counter("master_put_start_alloc_failures_total", "Number of puts that found no space.", &s.AllocFailures)
	l.counter("master_put_start_capped_total", "Number of puts that were refused because their client has too many unfinished ones.", &s.Capped)
	l.counter("master_put_start_partial_allocations_total", "Number of puts that got fewer copies than they asked for.", &s.PartialAllocs)
	l.counter("master_put_end_without_checksum_total", "Number of puts whose writer computed no checksum, so that no reader can verify the bytes.", &s.Unsummed)
	l.counter("master_upserts_total", "Number of puts that replaced a value that was there.", &s.Upserts)
	l.counter("master_upserts_in_place_total", "Number of puts that replaced a value in its own memory.", &s.UpsertsInPlace)
	l.counter("mem_cache_hit_nums_", "Number of reads answered from memory segments.", &s.MemHits)
	l.counter("mem_cache_hit_bytes_total", "Bytes of the reads answered from memory segments.", &s.MemHitBytes)
	l.counter("file_cache_hit_nums_", "Number of reads answered from storage tiers alone.", &s.TierHits)
	l.counter("file_cache_hit_bytes_total", "Bytes of the reads answered from storage tiers alone.", &s.TierHitBytes)
	l.counter("valid_get_nums_", "Number of keys read that had a readable copy.", &s.ValidGets)
	l.counter("total_get_nums_", "Number of keys read.", &s.Gets)
	for _, tier := range []string{"", "_mem"} {
		suffix := "_total"
		if tier != "" {
			suffix = ""
		}
		l.counter("master_successful_evictions"+tier+suffix, "Number of evictions that freed something.", &s.EvictSuccesses)
		l.counter("master_attempted_evictions"+tier+suffix, "Number of evictions that began.", &s.EvictAttempts)
		l.counter("master_evicted_key_count"+tier, "Number of objects evicted.", &s.EvictedKeys)
		l.counter("master_evicted_size_bytes"+tier, "Bytes of the objects evicted.", &s.EvictedBytes)
	}
	l.counter("master_evicted_unsaved_total", "Number of objects evicted before the storage tier of their node had a copy.", &s.EvictedUnsaved)
	l.counter("master_put_start_discard_cnt", "Number of unfinished puts that were given up.", &s.Discarded)
	l.counter("master_put_revoke_quarantined_total", "Number of revoked puts whose memory is held back because the outcome of a transfer is indeterminate; master_put_start_discard_cnt has them too.",
		&s.Quarantined)
	l.counter("master_put_start_release_cnt", "Number of copies of given-up puts whose memory was freed.", &s.Released)
	l.counter("master_drained_objects_total", "Number of copies that drain jobs moved away.", &s.DrainedObjects)
	l.counter("master_drained_bytes_total", "Bytes of the copies that drain jobs moved away.", &s.DrainedBytes)
	l.add(prometheus.GaugeValue, "master_upstream_connections", "Connections of upstream's clients to the RPC port.",
		func(*Gauges) float64 { return float64(s.UpstreamConnections.Load()) })
	l.add(prometheus.GaugeValue, "master_request_memory_bytes", "Bytes of rpc_memory_budget that large requests take.",
		func(*Gauges) float64 { return float64(s.RequestMemory.Load()) })
	l.counter("master_request_memory_waits_total", "Number of large requests that waited for rpc_memory_budget.", &s.RequestWaits)
	l.add(prometheus.CounterValue, "master_paused_seconds_total", "Seconds during which the process did not run; all deadlines are later by them.",
		func(*Gauges) float64 { return float64(s.Paused.Load()) / 1000 })
}

// histograms lists every histogram without labels.
func histograms(s *Set) []histMetric {
	const second = float64(time.Second)
	var out []histMetric
	add := func(name, help string, h *histogram, bounds []uint64, unit float64) {
		out = append(out, histMetric{prometheus.NewDesc(name, help, nil, nil), h, bounds, unit})
	}
	add("master_value_size_bytes", "Sizes in bytes of the objects that puts asked space for.", &s.ValueSizes.h, sizeBounds, 1)
	add("master_put_duration_seconds", "From the start of a put to its end.", &s.PutTimes.h, durationBounds, second)
	add("master_eviction_duration_seconds", "How long evictions took.", &s.EvictTimes.h, durationBounds, second)
	add("master_evicted_age_seconds", "How long ago evicted objects had been put.", &s.EvictedAges.h, ageBounds, second)
	add("master_lease_wait_seconds", "How long puts without space would have to wait for the first lease of a reader to end.",
		&s.LeaseWaits.h, durationBounds, second)
	add("master_task_duration_seconds", "From the creation of a copy or move to its end.", &s.TaskTimes.h, durationBounds, second)
	for _, x := range unusedHistograms() {
		add(x.name, noFeature, new(histogram), x.bounds, x.unit)
	}
	return out
}
