package upstream

import "github.com/mooncake-go/mooncake/core/config/internal/value"

// envEngine is what the transfer engine reads whatever the transport.
func envEngine() []Name {
	return concat([]Name{
		{Name: "MC_SLICE_SIZE", Type: Uint64, Default: "65536", Key: "store.slice_size", Readers: Node},
		{Name: "MC_METADATA_CLUSTER_ID", Type: String, Key: "store.metadata_cluster_id", Readers: Node | Master},
		{Name: "MC_RETRY_CNT", Type: Int32, Default: "9", Key: "store.retry_count", Readers: Node},
		{Name: "MC_SLICE_TIMEOUT", Type: Int32, Default: "-1", Key: "store.slice_timeout", Unit: value.Second, Negative: "5s", Readers: Node},
		{Name: "MC_TRANSFER_TIMEOUT", Type: Int32, Default: "30", Key: "store.transfer_timeout", Unit: value.Second, Readers: Node},
		{Name: "MC_DISABLE_METACACHE", Type: Presence, Key: "store.metadata_cache", Values: map[string]string{"*": "false"}, Readers: Node},
		{Name: "MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", Type: Int32, Default: "0", Key: "store.metadata_refresh", Unit: value.Second, Readers: Node},
		{Name: "MC_RDMA_RAIL_PAUSE_SECONDS", Type: Int32, Default: "30", Key: "store.rail_pause", Unit: value.Second, Readers: Node},
		{Name: "MC_MS_AUTO_DISC", Type: String, Key: "store.auto_discovery", Values: map[string]string{"1": "on", "0": "off", "*": "auto"}, Readers: Node},
		{Name: "MC_TE_FILTERS", Type: String, Key: "store.device_allow", Readers: Node},
		{Name: "MC_MS_FILTERS", Type: String, Key: "store.device_filter", Readers: Node},
		{Name: "MC_TE_FILTERS_EXCLUDE", Type: String, Key: "store.device_exclude", Readers: Node},
		{Name: "MC_NIC_PEER_AFFINITY", Type: String, Key: "store.peer_affinity", Readers: Node},
		{Name: "MC_CUSTOM_TOPO_JSON", Type: String, Key: "store.topology_file", Readers: Node},
		{Name: "MC_REDIS_USERNAME", Type: String, Key: "store.metadata_username", Readers: Node | Master},
		{Name: "MC_REDIS_PASSWORD", Type: String, Key: "store.metadata_password", Readers: Node | Master},
		{Name: "MC_REDIS_DB_INDEX", Type: Int32, Default: "0", Key: "store.metadata_db", Readers: Node | Master},
		{Name: "MC_HANDSHAKE_PORT", Type: Int32, Default: "12001", Key: "store.handshake_port", Readers: Node},
		{Name: "MC_HANDSHAKE_LISTEN_BACKLOG", Type: Int32, Default: "128", Key: "store.handshake_backlog", Readers: Node},
		{Name: "MC_HANDSHAKE_CONNECT_TIMEOUT", Type: Int32, Default: "5", Key: "store.handshake_connect_timeout", Unit: value.Second, Readers: Node},
		{Name: "MC_HANDSHAKE_MAX_LENGTH", Type: Uint64, Default: "1048576", Key: "store.handshake_max_length", Readers: Node},
		{Name: "MC_LEGACY_RPC_PORT_BINDING", Type: Presence, Key: "store.handshake_port_from_name", Values: map[string]string{"*": "true"}, Readers: Node},
		{Name: "MC_MIN_PRC_PORT", Type: Int32, Default: "15000", Key: "store.rpc_min_port", Readers: Node, Deprecated: true},
		{Name: "MC_MAX_PRC_PORT", Type: Int32, Default: "17000", Key: "store.rpc_max_port", Readers: Node, Deprecated: true},
		{Name: "MC_MIN_RPC_PORT", Type: Int32, Default: "15000", Key: "store.rpc_min_port", Readers: Node},
		{Name: "MC_MAX_RPC_PORT", Type: Int32, Default: "17000", Key: "store.rpc_max_port", Readers: Node},
		{Name: "MC_TCP_BIND_ADDRESS", Type: String, Key: "store.advertise_host", Readers: Node},
		{Name: "MC_TCP_MAX_CONNECTIONS_PER_PEER", Type: Int32, Key: "plugins.transport.tcp.config.connections_per_peer", Readers: Node, Deprecated: true},
		{Name: "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", Type: Int32, Default: "1024", Key: "plugins.transport.tcp.config.max_inflight_ops", Readers: Node},
		{Name: "MC_TCP_PROTO", Type: Int32, Key: "plugins.transport.tcp.config.upstream_proto", Readers: Node},
		{Name: "MC_TCP_STATUS_TIMEOUT_SEC", Type: Int32, Default: "30", Key: "plugins.transport.tcp.config.upstream_status_timeout", Suffix: "s", Readers: Node},
		{Name: "MC_TCP_LANES_PER_PEER", Type: Int32, Default: "4", Key: "plugins.transport.tcp.config.connections_per_peer", Readers: Node},
		{Name: "MC_TCP_SLICE_SIZE", Type: Uint64, Default: "65536", Key: "plugins.transport.tcp.config.slice_bytes", Readers: Node},
	},
		later(Node, engine, "MC_FRAGMENT_RATIO int32 4",
			"MC_TE_METRIC bool false", "MC_TE_METRIC_INTERVAL_SECONDS int32 5", "MC_USE_IPV6 presence"),
		later(Node, tcpTuning, "MC_TCP_ENABLE_CONNECTION_POOL bool true",
			"MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER int32 1024", "MC_TCP_ADMISSION_TIMEOUT_MS int32 1000"),
		later(Node, tent, "MC_USE_TENT presence", "MC_USE_TEV1 presence", "MC_TENT_CONF string", "MC_TENT_RPC_THREADS int32 1"),
	)
}

// envRDMA is what the transport over RDMA reads.
func envRDMA() []Name {
	const key = "plugins.transport.rdma.config."
	set := func(name string, t Type, def, setting string) Name {
		return Name{Name: name, Type: t, Default: def, Key: key + setting, Readers: Node}
	}
	store := set("MC_ENDPOINT_STORE_TYPE", String, "SIEVE", "endpoint_store")
	store.Values, store.Enum = map[string]string{"sieve": "sieve", "fifo": "fifo"}, "SIEVE|FIFO"
	return concat([]Name{
		set("MC_IB_PORT", Int32, "1", "ib_port"), set("NCCL_IB_GID_INDEX", Int32, "-1", "gid_index"), set("MC_GID_INDEX", Int32, "-1", "gid_index"), set("MC_AUTO_GID_MAX_RETRIES", Int32, "2", "gid_retries"),
		set("MC_PKEY_INDEX", Int32, "0", "pkey_index"), set("MC_MTU", Int32, "4096", "mtu"), set("MC_IB_TC", Int32, "-1", "traffic_class"),
		set("MC_IB_SL", Int32, "-1", "service_level"), set("MC_NUM_QP_PER_EP", Int32, "2", "qp_per_endpoint"), set("MC_MAX_WR", Int32, "256", "max_wr"),
		set("MC_MAX_SGE", Int32, "4", "max_sge"), set("MC_MAX_INLINE", Int32, "64", "max_inline"), set("MC_NUM_CQ_PER_CTX", Int32, "1", "cq_per_device"),
		set("MC_MAX_CQE_PER_CTX", Int32, "4096", "cq_depth"), set("MC_MAX_EP_PER_CTX", Int32, "65536", "max_endpoints"), store,
		set("MC_IB_PCI_RELAXED_ORDERING", Int32, "1", "relaxed_ordering"), set("MC_MAX_MR_SIZE", Uint64, "1099511627776", "max_mr_size"),
		set("MC_ENABLE_PARALLEL_REG_MR", Int32, "-1", "parallel_registration"),
		{Name: "WITH_NVIDIA_PEERMEM", Type: Bool, Default: "true", Key: key + "gpu_memory", Values: switched("peermem", "dmabuf"), Readers: Node},
	},
		later(Node, ownRails, "MC_NUM_COMP_CHANNELS_PER_CTX int32 1", "MC_WORKERS_PER_CTX int32 2", "MC_PATH_ROUNDROBIN bool false",
			"MC_ENABLE_DEST_DEVICE_AFFINITY bool false", "MC_ENABLE_HCA_PEER_AFFINITY bool false",
			"MC_CONN_PAUSE_TTL_MS int32 0", "MC_TRACK_RDMA_POSTED_SLICES bool false", "MC_LOG_RDMA_SLICE_AFFINITY bool false", "MC_FORCE_HCA presence"),
		later(Node, rdmaVendor, "MC_MLX5_QP_UDP_SPORTS string", "MC_MLX5_QP_LAG_PORT_BALANCE bool false", "MC_MAX_CONCURRENT_REG_MR int32 0", "MC_RDMA_BIND_ADDRESS string"))
}

// envVendor is what transports of single vendors and GPU memory read.
func envVendor() []Name {
	return concat(
		later(Node, gpu, "MC_DISABLE_GPU_DIRECT_RDMA presence", "MC_FORCE_MNNVL presence", "MC_ENABLE_MNNVL presence",
			"MC_INTRANODE_NVLINK presence", "MC_INTRA_NVLINK presence", "MC_USE_NVLINK_IPC presence", "MC_TPU_PJRT_LIB string"),
		later(Node, cxl, "MC_CXL_DEV_PATH string", "MC_CXL_DEV_SIZE uint64"),
		later(Node, vendor, "MC_FORCE_MUSA presence", "MC_MACA_HOST_TRANSPORT presence", "MC_EFA_NIC_SELECTION string all", "MC_EFA_CQ_THREADS int32 1",
			"MC_MIN_REG_SIZE uint64 67108864", "USE_BAREX presence", "ACCL_MIN_PORT int32 17000", "ACCL_MAX_PORT int32 35000",
			"MC_HIP_NUM_STREAMS int32 64", "MC_HIP_NUM_EVENTS int32 64", "MC_USE_HIP_IPC presence", "MC_DISABLE_HIP presence", "MC_DISABLE_MACA presence",
			"MC_DISABLE_MUSA presence", "MC_MUSA_* string", "MC_MACA_* string", "MC_USE_UBSHMEM_IPC presence", "MC_UBSHMEM_* string",
			"MOONCAKE_DISABLE_HIP_DMABUF presence"),
	)
}
