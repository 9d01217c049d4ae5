package upstream

import "github.com/mooncake-go/mooncake/core/config/internal/value"

// MasterFlags returns the flags of mooncake_master. Its configuration file has the same
// names as keys, except for MasterFileNames.
func MasterFlags() []Name {
	return concat(masterServing(), masterLifetimes(), masterDisk(), masterHA(), masterExtras(), masterTasks())
}

// MasterFileNames maps the file keys of mooncake_master that differ from the flag to the
// flag.
func MasterFileNames() map[string]string {
	return map[string]string{"client_live_ttl_sec": "client_ttl"}
}

func masterServing() []Name {
	return []Name{
		{Name: "config_path", Type: String},
		{Name: "conf_path", Type: String, Deprecated: true},
		{Name: "port", Type: Int32, Default: "50051", Key: "master.rpc_port", Fallback: true, Deprecated: true},
		{Name: "rpc_port", Type: Int32, Default: "0", Key: "master.rpc_port", ZeroUnset: true},
		{Name: "max_threads", Type: Int32, Default: "16", Feature: threads, Deprecated: true},
		{Name: "rpc_thread_num", Type: Int32, Default: "0", Feature: threads},
		{Name: "rpc_address", Type: String, Default: "0.0.0.0", Key: "master.rpc_address"},
		{Name: "rpc_interface", Type: String, Key: "master.rpc_interface"},
		{Name: "rpc_conn_timeout_seconds", Type: Int32, Default: "0", Key: "master.rpc_conn_timeout", Unit: value.Second},
		{Name: "rpc_enable_tcp_no_delay", Type: Bool, Default: "true", Key: "master.rpc_enable_tcp_no_delay"},
		{Name: "enable_metric_reporting", Type: Bool, Default: "true", Key: "master.enable_metric_reporting"},
		{Name: "metrics_port", Type: Int32, Default: "9003", Key: "master.metrics_port"},
		{Name: "metrics_host", Type: String, Default: "0.0.0.0", Key: "master.metrics_host"},
		{Name: "enable_http_metadata_server", Type: Bool, Default: "false", Key: "master.enable_http_metadata_server"},
		{Name: "http_metadata_server_port", Type: Int32, Default: "8080", Key: "master.http_metadata_server_port"},
		{Name: "http_metadata_server_host", Type: String, Default: "0.0.0.0", Key: "master.http_metadata_server_host"},
		{Name: "enable_metadata_cleanup_on_timeout", Type: Bool, Default: "false", Key: "master.enable_metadata_cleanup_on_timeout"},
		{Name: "cluster_id", Type: String, Default: "mooncake_cluster", Key: "master.cluster_id"},
	}
}

func masterLifetimes() []Name {
	return []Name{
		{Name: "default_kv_lease_ttl", Type: Duration, Default: "10000", Key: "master.lease_ttl", Unit: value.Millisecond},
		{Name: "default_kv_soft_pin_ttl", Type: Duration, Default: "1800000", Key: "master.soft_pin_ttl", Unit: value.Millisecond},
		{Name: "max_kv_soft_pin_ttl", Type: Duration, Default: "86400000", Key: "master.max_soft_pin_ttl", Unit: value.Millisecond},
		{Name: "allow_evict_soft_pinned_objects", Type: Bool, Default: "true", Key: "master.allow_evict_soft_pinned_objects"},
		{Name: "eviction_ratio", Type: Double, Default: "0.05", Key: "master.eviction_ratio"},
		{Name: "eviction_high_watermark_ratio", Type: Double, Default: "0.90", Key: "master.eviction_high_watermark_ratio"},
		{Name: "nof_eviction_ratio", Type: Double, Default: "0.05", Range: "0..1", Feature: nof},
		{Name: "nof_eviction_high_watermark_ratio", Type: Double, Default: "0.90", Range: "0..1", Feature: nof},
		{Name: "client_ttl", Type: Int64, Default: "10", Key: "master.client_ttl", Unit: value.Second},
		{Name: "nof_heartbeat_interval_sec", Type: Int64, Default: "10", Feature: nof},
		{Name: "nof_heartbeat_probe_timeout_ms", Type: Uint32, Default: "1000", Feature: nof},
		{Name: "nof_heartbeat_failures_threshold", Type: Uint32, Default: "3", Feature: nof},
		{Name: "memory_allocator", Type: String, Default: "offset", Enum: "offset|cachelib", Feature: cachelib, Refuse: true},
		{Name: "allocation_strategy", Type: String, Default: "random", Key: "master.allocation_strategy"},
		{Name: "put_start_discard_timeout_sec", Type: Uint64, Default: "30", Key: "master.put_start_discard_timeout", Unit: value.Second},
		{Name: "put_start_release_timeout_sec", Type: Uint64, Default: "600", Key: "master.put_start_release_timeout", Unit: value.Second},
	}
}

func masterDisk() []Name {
	return []Name{
		{Name: "root_fs_dir", Type: String, Feature: diskTier, Refuse: true},
		{Name: "global_file_segment_size", Type: Int64, Default: "9223372036854775807", Feature: diskTier},
		{Name: "enable_disk_eviction", Type: Bool, Default: "true", Feature: diskTier},
		{Name: "quota_bytes", Type: Uint64, Default: "0", Feature: diskTier},
		{Name: "enable_offload", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "offload_on_evict", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "offload_force_evict", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "offloading_queue_limit", Type: Uint64, Default: "50000", Range: "1..100000000", Feature: ssdTier},
		{Name: "offload_cap_ratio", Type: Double, Default: "0.5", Range: "0..1", Feature: ssdTier},
		{Name: "promotion_on_hit", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "promotion_admission_threshold", Type: Uint32, Default: "2", Feature: ssdTier},
		{Name: "promotion_queue_limit", Type: Uint32, Default: "50000", Feature: ssdTier},
		{Name: "promotion_max_per_heartbeat", Type: Uint32, Default: "1", Range: "1..", Feature: ssdTier},
	}
}

func concat(tables ...[]Name) []Name {
	var out []Name
	for _, t := range tables {
		out = append(out, t...)
	}
	return out
}
