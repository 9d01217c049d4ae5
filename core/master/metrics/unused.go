package metrics

import "time"

const noFeature = "Not supported by this master, always 0."

// unused adds the series of features that this master does not have.
func (l *list) unused() {
	zero := func(*Gauges) float64 { return 0 }
	for _, name := range []string{
		"master_nof_allocated_bytes", "master_total_nof_capacity_bytes",
		"ha_oplog_last_sequence_id", "ha_oplog_applied_sequence_id", "ha_oplog_standby_lag", "ha_oplog_pending_entries",
		"ha_pending_mutation_queue_size", "ha_standby_state",
		"ha_batch_record_committed_queue_depth", "ha_batch_record_callback_queue_depth", "ha_batch_record_last_batch_id",
		"ha_batch_record_durable_sequence",
	} {
		l.gauge(name, noFeature, zero)
	}
	for _, name := range []string{"mount_nof_segment", "unmount_nof_segment", "remount_nof_segment", "evict_disk_replica"} {
		l.op(name, name+" calls; not supported, always 0", new(Op))
	}
	names := []string{
		"master_snapshot_success", "master_snapshot_fail",
		"master_successful_evictions_nof", "master_attempted_evictions_nof", "master_evicted_key_count_nof", "master_evicted_size_bytes_nof",
		"master_nof_segments_unmounted_by_heartbeat_total", "ha_state_transitions_total",
	}
	names = append(names, each("master_promotion_", "_total",
		"rejected_frequency",
		"candidate_recorded", "candidate_admitted", "candidate_admission_rejected",
		"candidate_expired_evaluated", "candidate_expired_unevaluated", "candidate_dropped_limit")...)
	names = append(names, each("master_nof_heartbeat_", "_total", "success", "failure", "timeout")...)
	names = append(names, each("ha_oplog_", "_total",
		"skipped_entries", "checksum_failures", "gap_resolve_attempts", "gap_resolve_success", "etcd_write_failures",
		"etcd_write_retries", "watch_disconnections", "applied_entries", "dropped_put_end", "batch_commits", "sync_batch_commits")...)
	names = append(names, each("ha_batch_record_", "_total", "durable_batches", "durable_entries", "retry")...)
	for _, name := range names {
		l.counter(name, noFeature, new(Counter))
	}
}

func each(prefix, suffix string, middles ...string) []string {
	out := make([]string, len(middles))
	for i, m := range middles {
		out[i] = prefix + m + suffix
	}
	return out
}

type unusedHistogram struct {
	name   string
	bounds []uint64
	unit   float64
}

// unusedHistograms are the histograms of features that this master does not have.
func unusedHistograms() []unusedHistogram {
	const ms, us = float64(time.Millisecond), float64(time.Microsecond)
	return []unusedHistogram{
		{"master_nof_heartbeat_probe_latency_ms", durationBounds, ms},
		{"master_snapshot_duration_ms", durationBounds, ms},
		{"ha_oplog_etcd_write_latency_us", durationBounds, us},
		{"ha_oplog_apply_latency_us", durationBounds, us},
		{"ha_batch_record_txn_latency_us", durationBounds, us},
		{"ha_batch_record_commit_to_durable_us", durationBounds, us},
		{"ha_batch_record_callback_latency_us", durationBounds, us},
		{"ha_batch_record_batch_entries", sizeBounds, 1},
		{"ha_batch_record_batch_bytes", sizeBounds, 1},
	}
}
