package metrics

const noFeature = "Not supported by this master, always 0."

func unusedOps() []string {
	return []string{
		"get_replica_list_by_regex", "mount_nof_segment", "unmount_nof_segment", "remount_nof_segment",
		"copy_start", "copy_end", "copy_revoke", "move_start", "move_end", "move_revoke", "evict_disk_replica",
		"create_copy_task", "create_move_task", "query_task", "fetch_tasks", "update_task",
	}
}

// unused adds the series of features that this master does not have.
func (l *list) unused() {
	zero := func(*Gauges) float64 { return 0 }
	for _, name := range []string{
		"master_nof_allocated_bytes", "master_total_nof_capacity_bytes",
		"master_allocated_file_size_bytes", "master_total_file_capacity_bytes", "master_soft_pin_key_count",
		"file_cache_nums_", "master_promotion_in_flight",
		"ha_oplog_last_sequence_id", "ha_oplog_applied_sequence_id", "ha_oplog_standby_lag", "ha_oplog_pending_entries",
		"ha_pending_mutation_queue_size", "ha_standby_state",
	} {
		l.gauge(name, noFeature, zero)
	}
	names := []string{
		"file_cache_hit_nums_", "file_cache_hit_bytes_total", "master_snapshot_success", "master_snapshot_fail",
		"master_successful_evictions_nof", "master_attempted_evictions_nof", "master_evicted_key_count_nof", "master_evicted_size_bytes_nof",
	}
	for _, x := range []string{
		"admitted", "completed", "completed_bytes", "expired", "failed", "cancelled",
		"rejected_frequency", "rejected_watermark", "rejected_cap",
		"candidate_recorded", "candidate_admitted", "candidate_admission_rejected",
		"candidate_expired_evaluated", "candidate_expired_unevaluated", "candidate_dropped_limit",
	} {
		names = append(names, "master_promotion_"+x+"_total")
	}
	for _, name := range names {
		l.counter(name, noFeature, new(Counter))
	}
}
