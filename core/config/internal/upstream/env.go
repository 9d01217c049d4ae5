package upstream

import (
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// Environment returns the variables that the reference implementation, its Python
// wheel and the connectors of the inference engines read. Where two give the same key,
// the later one in the table wins. An empty variable counts as unset everywhere.
func Environment() []Name {
	return concat(envStore(), envClient(), envEngine(), envRDMA(), envVendor(), envDisk(), envMaster(), envElsewhere())
}

// later makes the rows of settings without an effect; a row is "NAME type default", where
// the default may be left out.
func later(readers Reader, feature string, rows ...string) []Name {
	out := make([]Name, len(rows))
	for i, row := range rows {
		f := append(strings.Fields(row), "", "")
		out[i] = Name{Name: f[0], Type: Type(f[1]), Default: f[2], Feature: feature, Readers: readers}
	}
	return out
}

func refused(readers Reader, feature string, rows ...string) []Name {
	out := later(readers, feature, rows...)
	for i := range out {
		out[i].Refuse = true
	}
	return out
}

// envStore is what the store service and the engines' connectors set.
func envStore() []Name {
	return concat([]Name{
		{Name: "MOONCAKE_MASTER", Type: String, Key: "store.master_server_address", Readers: Node},
		{Name: "MC_METADATA_SERVER", Type: String, Key: "store.metadata_server", Readers: Node},
		{Name: "MOONCAKE_TE_META_DATA_SERVER", Type: String, Default: "P2PHANDSHAKE", Key: "store.metadata_server", Readers: Node | Master},
		{Name: "MOONCAKE_PROTOCOL", Type: String, Default: "tcp", Key: "store.protocol", Readers: Node},
		{Name: "MOONCAKE_DEVICE", Type: String, Key: "store.device_names", Readers: Node},
		{Name: "MOONCAKE_GLOBAL_SEGMENT_SIZE", Type: Size, Default: "3355443200", Key: "store.global_segment_size", Readers: Node},
		{Name: "MOONCAKE_LOCAL_BUFFER_SIZE", Type: Size, Default: "1073741824", Key: "store.local_buffer_size", Readers: Node},
		{Name: "MOONCAKE_LOCAL_HOSTNAME", Type: String, Default: "localhost", Key: "store.local_hostname", Readers: Node},
		{Name: "MOONCAKE_REQUESTER_LOCAL_HOSTNAME", Type: String, Readers: Elsewhere},
		{Name: "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER", Type: Bool, Default: "false", Key: "store.enable_http_server", Readers: Node},
		{Name: "MOONCAKE_CLIENT_HTTP_PORT", Type: Int32, Default: "9300", Key: "store.http_port", Readers: Node},
		{Name: "MOONCAKE_STORE_CHECKSUM", Type: Bool, Default: "false", Key: "store.checksum", Readers: Node},
		{Name: "MOONCAKE_TENANT_ID", Type: String, Default: "default", Key: "store.tenant_id", Readers: Node},
		{Name: "MOONCAKE_CONFIG_PATH", Type: String, Readers: Node},
	},
		refused(Node, ssdTier, "MOONCAKE_OFFLOAD_ENABLED bool false", "MOONCAKE_ENABLE_SSD_OFFLOAD bool false"),
	)
}

// envClient is what the store's client reads.
func envClient() []Name {
	return concat([]Name{
		{Name: "MC_RPC_TIMEOUT_MS", Type: Int32, Default: "30000", Key: "store.rpc_timeout", Unit: value.Millisecond, Negative: longest, Readers: Node},
		{Name: "MC_RPC_CONNECT_TIMEOUT_MS", Type: Int32, Default: "30000", Key: "store.rpc_connect_timeout", Unit: value.Millisecond, Negative: longest, Readers: Node},
		{Name: "MC_STORE_CLUSTER_ID", Type: String, Default: "mooncake_cluster", Key: "store.cluster_id", Readers: Node},
		{Name: "MC_STORE_MEMCPY", Type: Bool, Key: "store.memcpy", Values: switched("on", "off"), Readers: Node},
		{Name: "MC_STORE_CLIENT_METRIC", Type: Bool, Default: "true", Key: "store.client_metric", Readers: Node},
		{Name: "MC_STORE_CLIENT_METRIC_INTERVAL", Type: Int32, Default: "0", Key: "store.client_metric_interval", Unit: value.Second, Readers: Node},
		{Name: "MC_STORE_CLIENT_METRIC_BANDWIDTH", Type: Bool, Default: "true", Key: "store.client_metric_bandwidth", Readers: Node},
		{Name: "MC_STORE_CLIENT_MIN_PORT", Type: Int32, Default: "12300", Key: "store.client_min_port", Readers: Node},
		{Name: "MC_STORE_CLIENT_MAX_PORT", Type: Int32, Default: "14300", Key: "store.client_max_port", Readers: Node},
		{Name: "MC_STORE_CLIENT_SETUP_RETRIES", Type: Int32, Default: "20", Key: "store.setup_retries", Readers: Node},
		{Name: "MC_STORE_LOCAL_HOT_CACHE_SIZE", Type: Uint64, Default: "0", Key: "store.local_hot_cache_size", Readers: Node},
		{Name: "MC_STORE_LOCAL_HOT_BLOCK_SIZE", Type: Uint64, Default: "16777216", Key: "store.local_hot_block_size", Readers: Node},
		{Name: "MC_STORE_LOCAL_HOT_CACHE_USE_SHM", Type: Bool, Default: "false", Key: "store.local_hot_cache_use_shm", Readers: Node},
		{Name: "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD", Type: Uint32, Default: "2", Key: "store.local_hot_admission_threshold", Readers: Node},
		{Name: "MC_LOG_DIR", Type: String, Key: "log.dir", Readers: Node},
		{Name: "MC_FORCE_TCP", Type: Presence, Key: "store.protocol", Values: map[string]string{"*": "tcp"}, Readers: Node},
		{Name: "MC_LOG_LEVEL", Type: String, Default: "INFO", Enum: "TRACE|INFO|WARNING|ERROR", Key: "log.level", Readers: Everyone,
			Values: map[string]string{"trace": "debug", "debug": "debug", "info": "info", "warning": "warn", "warn": "warn", "error": "error"}},
		{Name: "MC_STORE_USE_HUGEPAGE", Type: Bool, Default: "false", Key: "store.use_hugepage", Readers: Node},
		{Name: "MC_STORE_HUGEPAGE_SIZE", Type: String, Default: "2mb", Enum: "2MB|1GB", Key: "store.hugepage_size", Readers: Node,
			Values: map[string]string{"2mb": "2mb", "2m": "2mb", "2mib": "2mb", "1gb": "1gb", "1g": "1gb", "1gib": "1gb"}},
		{Name: "MC_STORE_NUMA_SOCKET_ID", Type: Int32, Default: "-1", Key: "store.numa_node", Readers: Node},
		{Name: "MC_MMAP_ARENA_POOL_SIZE", Type: Size, Default: "0", Key: "store.mmap_arena_pool_size", Readers: Node},
		{Name: "MC_DISABLE_MMAP_ARENA", Type: Bool, Default: "false", Key: "store.disable_mmap_arena", Readers: Node},
	},
		later(Node, clientRPC, "MC_RPC_CLIENT_IO_THREADS int32 16", "MC_TE_RPC_CLIENT_IO_THREADS int32",
			"MC_STORE_RPC_CLIENT_IO_THREADS int32"),
		later(Node|Master, rdmaRPC, "MC_RPC_PROTOCOL string tcp"),
		later(Node, pinning, "MC_STORE_PIN_MEMORY_MAX_BYTES uint64"),
		later(Node, hotCache, "MC_STORE_LOCAL_HOT_* string"),
		later(Node, scoring, "MC_STORE_REPLICA_SCORING bool false"),
		later(Node, ssdTier, "MC_STORE_PINNED_RESTORE_ARENA_SIZE_BYTES uint64 0", "MC_FILEREAD_WORKERS int32 10"),
		later(Node, nof, "MC_NOF_* string", "MC_NVME_* string"),
		later(Everyone, glog, "MC_YLT_LOG_LEVEL string WARN"),
	)
}

// envElsewhere is read by programs that share the environment with ours.
func envElsewhere() []Name {
	return later(Elsewhere, "", "MOONCAKE_CLIENT string", "MOONCAKE_CHECK_SERVER bool false", "MOONCAKE_STANDALONE_STORAGE bool false",
		"MOONCAKE_CLIENT_METRICS_PORT_BASE int32", "MOONCAKE_PREFERRED_SEGMENT string", "POD_NAME string",
		"POD_NAMESPACE string", "ASCEND_* string", "HCCL_RDMA_TC int32", "HCCL_RDMA_SL int32")
}
