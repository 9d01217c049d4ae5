package upstream

import "github.com/mooncake-go/mooncake/core/config/internal/value"

func masterHA() []Name {
	return []Name{
		{Name: "enable_ha", Type: Bool, Default: "false", Feature: ha, Refuse: true},
		{Name: "ha_backend_type", Type: String, Default: "etcd", Enum: "etcd|redis|k8s", Feature: ha},
		{Name: "ha_backend_connstring", Type: String, Feature: ha},
		{Name: "etcd_endpoints", Type: String, Feature: ha},
		{Name: "enable_oplog", Type: Bool, Default: "false", Feature: ha, Refuse: true},
		{Name: "oplog_poll_interval_ms", Type: Int32, Default: "1000", Feature: ha},
		{Name: "oplog_batch_max_entries", Type: Uint32, Default: "1024", Feature: ha},
		{Name: "batch_oplog_retry_timeout_sec", Type: Uint32, Default: "180", Feature: ha},
		{Name: "pod_name", Type: String, Feature: ha},
		{Name: "pod_namespace", Type: String, Feature: ha},
		{Name: "enable_snapshot", Type: Bool, Default: "false", Feature: snapshot, Refuse: true},
		{Name: "enable_snapshot_restore", Type: Bool, Default: "false", Feature: snapshot, Refuse: true},
		{Name: "snapshot_interval_seconds", Type: Uint64, Default: "600", Feature: snapshot},
		{Name: "snapshot_child_timeout_seconds", Type: Uint64, Default: "300", Feature: snapshot},
		{Name: "snapshot_retention_count", Type: Uint32, Default: "2", Range: "1..", Feature: snapshot},
		{Name: "snapshot_backup_dir", Type: String, Feature: snapshot},
		{Name: "snapshot_object_store_type", Type: String, Feature: snapshot},
		{Name: "snapshot_payload_store_type", Type: String, Feature: snapshot, Deprecated: true},
		{Name: "snapshot_payload_backend_type", Type: String, Feature: snapshot, Deprecated: true},
		{Name: "snapshot_catalog_store_type", Type: String, Feature: snapshot},
		{Name: "snapshot_catalog_backend_type", Type: String, Feature: snapshot, Deprecated: true},
		{Name: "snapshot_catalog_store_connstring", Type: String, Feature: snapshot},
		{Name: "snapshot_catalog_backend_connstring", Type: String, Feature: snapshot, Deprecated: true},
	}
}

func masterExtras() []Name {
	return []Name{
		{Name: "dynamic_replication_mode", Type: String, Default: "off", Enum: "off|observe|enforce", Feature: dynamicRepl, RefuseOnly: "enforce"},
		{Name: "dynamic_replication_heat_window_seconds", Type: Uint32, Default: "10", Range: "1..", Feature: dynamicRepl},
		{Name: "dynamic_replication_admission_qps_threshold", Type: Double, Default: "0.8", Range: ">0..", Feature: dynamicRepl},
		{Name: "dynamic_replication_max_memory_replicas", Type: Uint64, Default: "2", Range: "1..", Feature: dynamicRepl},
		{Name: "enable_multi_tenants", Type: Bool, Default: "false", Key: "master.enable_multi_tenants"},
		{Name: "tenant_quota_connector_type", Type: String, Default: "file", Enum: "file|etcd", Key: "master.tenant_quota_connector_type"},
		{Name: "tenant_quota_connector_uri", Type: String, Key: "master.tenant_quota_connector_uri"},
		{Name: "enable_cxl", Type: Bool, Default: "false", Feature: cxl, Refuse: true},
		{Name: "cxl_path", Type: String, Default: "/dev/dax0.0", Feature: cxl},
		{Name: "cxl_size", Type: Uint64, Default: "8589934592", Feature: cxl},
		{Name: "enable_kv_events", Type: Bool, Default: "false", Key: "master.enable_kv_events"},
		{Name: "kv_events_bind_endpoint", Type: String, Key: "master.kv_events_bind_endpoint"},
		{Name: "kv_events_backend_id", Type: String, Key: "master.kv_events_backend_id"},
		{Name: "kv_events_queue_capacity", Type: Uint32, Default: "65536", Key: "master.kv_events_queue_capacity"},
		{Name: "kv_events_emit_legacy_compat", Type: Bool, Default: "true", Key: "master.kv_events_emit_legacy_compat"},
		{Name: "kv_events_emit_object_key", Type: Bool, Default: "true", Key: "master.kv_events_emit_object_key"},
		{Name: "kv_events_model_name", Type: String, Feature: eventFields, Deprecated: true},
		{Name: "kv_events_additional_salt", Type: String, Feature: eventFields, Deprecated: true},
		{Name: "kv_events_lora_name", Type: String, Feature: eventFields, Deprecated: true},
		{Name: "kv_events_tenant_id", Type: String, Default: "default", Feature: eventFields, Deprecated: true},
		{Name: "kv_events_block_size", Type: Uint32, Default: "0", Feature: eventFields, Deprecated: true},
		{Name: "kv_events_dp_rank", Type: Uint32, Default: "0", Feature: eventFields, Deprecated: true},
	}
}

func masterTasks() []Name {
	return []Name{
		{Name: "max_total_finished_tasks", Type: Uint32, Default: "10000", Key: "master.max_total_finished_tasks"},
		{Name: "max_total_pending_tasks", Type: Uint32, Default: "10000", Key: "master.max_total_pending_tasks"},
		{Name: "max_total_processing_tasks", Type: Uint32, Default: "10000", Key: "master.max_total_processing_tasks"},
		{Name: "pending_task_timeout_sec", Type: Uint64, Default: "300", Key: "master.pending_task_timeout", Unit: value.Second},
		{Name: "processing_task_timeout_sec", Type: Uint64, Default: "300", Key: "master.processing_task_timeout", Unit: value.Second},
		{Name: "max_retry_attempts", Type: Uint32, Default: "10", Key: "master.max_retry_attempts"},
	}
}
