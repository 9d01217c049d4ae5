package upstream

import "github.com/mooncake-go/mooncake/core/config/internal/value"

// ClientFlags returns the flags of mooncake_client.
func ClientFlags() []Name {
	return []Name{
		{Name: "host", Type: String, Default: "0.0.0.0", Key: "store.local_hostname"},
		{Name: "metadata_server", Type: String, Default: "http://127.0.0.1:8080/metadata", Key: "store.metadata_server"},
		{Name: "device_names", Type: String, Key: "store.device_names"},
		{Name: "device_name", Type: String, Key: "store.device_names", Deprecated: true},
		{Name: "master_server_address", Type: String, Default: "127.0.0.1:50051", Key: "store.master_server_address"},
		{Name: "protocol", Type: String, Default: "tcp", Key: "store.protocol"},
		{Name: "port", Type: Int32, Default: "50052", Key: "store.port"},
		{Name: "global_segment_size", Type: Size, Default: "4 GB", Key: "store.global_segment_size"},
		{Name: "local_buffer_size", Type: Size, Default: "0", Key: "store.local_buffer_size"},
		{Name: "threads", Type: Int32, Default: "1", Feature: threads},
		{Name: "tenant_id", Type: String, Default: "default", Key: "store.tenant_id"},
		{Name: "enable_offload", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "start_offload_rpc_server", Type: Bool, Default: "true", Feature: ssdTier},
		{Name: "enable_http_server", Type: Bool, Default: "false", Key: "store.enable_http_server"},
		{Name: "http_port", Type: Int32, Default: "9300", Key: "store.http_port"},
	}
}

// ServiceFlags returns the flags of the store service.
func ServiceFlags() []Name {
	return []Name{
		{Name: "port", Type: Int32, Default: "8080", Key: "store.rest_port"},
		{Name: "max_wait_time", Type: Int32, Default: "60", Key: "store.max_wait_time", Unit: value.Second},
	}
}

// ServiceKeys returns the keys of the JSON file that the store service and the inference
// engines' connectors read (MOONCAKE_CONFIG_PATH).
func ServiceKeys() []Name {
	return []Name{
		{Name: "local_hostname", Type: String, Default: "localhost", Key: "store.local_hostname"},
		{Name: "metadata_server", Type: String, Default: "P2PHANDSHAKE", Key: "store.metadata_server"},
		{Name: "master_server_address", Type: String, Default: "127.0.0.1:50051", Key: "store.master_server_address"},
		{Name: "master_server_addr", Type: String, Default: "127.0.0.1:50051", Key: "store.master_server_address", Deprecated: true},
		{Name: "global_segment_size", Type: Size, Default: "3355443200", Key: "store.global_segment_size"},
		{Name: "local_buffer_size", Type: Size, Default: "1073741824", Key: "store.local_buffer_size"},
		{Name: "protocol", Type: String, Default: "tcp", Key: "store.protocol"},
		{Name: "device_name", Type: String, Key: "store.device_names"},
		{Name: "rdma_devices", Type: String, Key: "store.device_names"},
		{Name: "enable_client_http_server", Type: Bool, Default: "false", Key: "store.enable_http_server"},
		{Name: "client_http_port", Type: Int32, Default: "9300", Key: "store.http_port"},
		{Name: "ipc_socket_path", Type: String, Key: "store.local_socket"},
		{Name: "tenant_id", Type: String, Default: "default", Key: "store.tenant_id"},
		{Name: "enable_ssd_offload", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "enable_offload", Type: Bool, Default: "false", Feature: ssdTier, Refuse: true},
		{Name: "ssd_offload_path", Type: String, Feature: ssdTier},
		{Name: "storage_root_dir", Type: String, Feature: diskTier},
		{Name: "mode", Type: String, Default: "embedded", Enum: "embedded|standalone-store", Readers: Elsewhere},
		{Name: "prefer_local_alloc", Type: Bool, Default: "false", Readers: Elsewhere},
		{Name: "transfer_timeout", Type: Double, Default: "1", Readers: Elsewhere},
	}
}
