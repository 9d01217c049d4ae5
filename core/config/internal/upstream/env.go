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
		{Name: "MOONCAKE_TE_META_DATA_SERVER", Type: String, Default: "P2PHANDSHAKE", Key: "store.metadata_server", Readers: Node},
		{Name: "MOONCAKE_PROTOCOL", Type: String, Default: "tcp", Key: "store.protocol", Readers: Node},
		{Name: "MOONCAKE_DEVICE", Type: String, Key: "store.device_names", Readers: Node},
		{Name: "MOONCAKE_GLOBAL_SEGMENT_SIZE", Type: Size, Default: "3355443200", Key: "store.global_segment_size", Readers: Node},
		{Name: "MOONCAKE_LOCAL_BUFFER_SIZE", Type: Size, Default: "1073741824", Key: "store.local_buffer_size", Readers: Node},
		{Name: "MOONCAKE_LOCAL_HOSTNAME", Type: String, Default: "localhost", Key: "store.local_hostname", Readers: Node},
		{Name: "MOONCAKE_REQUESTER_LOCAL_HOSTNAME", Type: String, Readers: Elsewhere},
		{Name: "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER", Type: Bool, Default: "false", Key: "store.enable_http_server", Readers: Node},
		{Name: "MOONCAKE_CLIENT_HTTP_PORT", Type: Int32, Default: "9300", Key: "store.http_port", Readers: Node},
		{Name: "MOONCAKE_STORE_CHECKSUM", Type: Bool, Default: "false", Key: "store.checksum", Readers: Node},
		{Name: "MOONCAKE_CONFIG_PATH", Type: String, Readers: Node},
	},
		refused(Node, tenants, "MOONCAKE_TENANT_ID string default"),
		refused(Node, ssdTier, "MOONCAKE_OFFLOAD_ENABLED bool false", "MOONCAKE_ENABLE_SSD_OFFLOAD bool false"),
	)
}

// envClient is what the store's client reads.
func envClient() []Name {
	return concat([]Name{
		{Name: "MC_RPC_TIMEOUT_MS", Type: Int32, Default: "30000", Key: "store.rpc_timeout", Unit: value.Millisecond, Readers: Node},
		{Name: "MC_FORCE_TCP", Type: Presence, Key: "store.protocol", Values: map[string]string{"*": "tcp"}, Readers: Node},
		{Name: "MC_LOG_LEVEL", Type: String, Default: "INFO", Enum: "TRACE|INFO|WARNING|ERROR", Key: "log.level", Readers: Everyone,
			Values: map[string]string{"trace": "debug", "debug": "debug", "info": "info", "warning": "warn", "warn": "warn", "error": "error"}},
	},
		later(Node, clientRPC, "MC_RPC_CONNECT_TIMEOUT_MS int32", "MC_RPC_CLIENT_IO_THREADS int32 16", "MC_TE_RPC_CLIENT_IO_THREADS int32",
			"MC_STORE_RPC_CLIENT_IO_THREADS int32"),
		later(Node|Master, rdma, "MC_RPC_PROTOCOL string tcp"),
		later(Node, ha, "MC_STORE_CLUSTER_ID string"),
		later(Node, clientMetric, "MC_STORE_CLIENT_METRIC bool", "MC_STORE_CLIENT_METRIC_INTERVAL int32", "MC_STORE_CLIENT_METRIC_BANDWIDTH bool"),
		later(Node, portRange, "MC_STORE_CLIENT_MIN_PORT int32 12300", "MC_STORE_CLIENT_MAX_PORT int32 14300", "MC_STORE_CLIENT_SETUP_RETRIES int32 20"),
		later(Node, hugePages, "MC_STORE_USE_HUGEPAGE bool false", "MC_STORE_HUGEPAGE_SIZE string", "MC_STORE_PIN_MEMORY_MAX_BYTES uint64"),
		later(Node, numa, "MC_STORE_NUMA_SOCKET_ID int32"),
		later(Node, "the choice; local reads are always a memory copy", "MC_STORE_MEMCPY bool true"),
		later(Node, hotCache, "MC_STORE_LOCAL_HOT_CACHE_SIZE uint64 0", "MC_STORE_LOCAL_HOT_BLOCK_SIZE uint64 16777216",
			"MC_STORE_LOCAL_HOT_CACHE_USE_SHM bool false", "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD uint32 2", "MC_STORE_LOCAL_HOT_* string"),
		later(Node, scoring, "MC_STORE_REPLICA_SCORING bool false"),
		later(Node, ssdTier, "MC_STORE_PINNED_RESTORE_ARENA_SIZE_BYTES uint64 0", "MC_FILEREAD_WORKERS int32 10"),
		later(Node, mmapArena, "MC_MMAP_ARENA_POOL_SIZE uint64", "MC_DISABLE_MMAP_ARENA bool false"),
		later(Node, nof, "MC_NOF_* string", "MC_NVME_* string"),
		later(Everyone, glog, "MC_LOG_DIR string", "MC_YLT_LOG_LEVEL string WARN"),
	)
}

// envElsewhere is read by programs that share the environment with ours.
func envElsewhere() []Name {
	return later(Elsewhere, "", "MOONCAKE_CLIENT string", "MOONCAKE_CHECK_SERVER bool false", "MOONCAKE_STANDALONE_STORAGE bool false",
		"MOONCAKE_CLIENT_METRICS_PORT_BASE int32", "MOONCAKE_PREFERRED_SEGMENT string", "NCCL_IB_GID_INDEX int32", "POD_NAME string",
		"POD_NAMESPACE string", "ASCEND_* string", "HCCL_RDMA_TC int32", "HCCL_RDMA_SL int32")
}
