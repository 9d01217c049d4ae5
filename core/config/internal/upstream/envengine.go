package upstream

// envEngine is what the transfer engine reads whatever the transport.
func envEngine() []Name {
	return concat([]Name{
		{Name: "MC_SLICE_SIZE", Type: Uint64, Default: "65536", Key: "store.slice_size", Readers: Node},
		{Name: "MC_METADATA_CLUSTER_ID", Type: String, Key: "store.metadata_cluster_id", Readers: Node | Master},
		{Name: "MC_TCP_BIND_ADDRESS", Type: String, Key: "plugins.transport.tcp.config.host", Readers: Node},
		{Name: "MC_TCP_LANES_PER_PEER", Type: Int32, Default: "4", Key: "plugins.transport.tcp.config.connections_per_peer", Readers: Node},
		{Name: "MC_TCP_SLICE_SIZE", Type: Uint64, Default: "65536", Key: "plugins.transport.tcp.config.slice_bytes", Readers: Node},
	},
		later(Node, engine, "MC_FRAGMENT_RATIO int32 4", "MC_RETRY_CNT int32 9", "MC_SLICE_TIMEOUT int32 -1", "MC_TRANSFER_TIMEOUT int32 30",
			"MC_TE_METRIC bool false", "MC_TE_METRIC_INTERVAL_SECONDS int32 5", "MC_DISABLE_METACACHE presence",
			"MC_TE_METADATA_REFRESH_INTERVAL_SECONDS int32 0", "MC_ENDPOINT_STORE_TYPE string SIEVE", "MC_USE_IPV6 presence"),
		later(Node, handshake, "MC_HANDSHAKE_PORT int32 12001", "MC_HANDSHAKE_LISTEN_BACKLOG int32 128", "MC_HANDSHAKE_CONNECT_TIMEOUT int32 5",
			"MC_HANDSHAKE_MAX_LENGTH uint64 1048576", "MC_LEGACY_RPC_PORT_BINDING presence"),
		later(Node, portRange, "MC_MIN_RPC_PORT int32 15000", "MC_MAX_RPC_PORT int32 17000", "MC_MIN_PRC_PORT int32 15000", "MC_MAX_PRC_PORT int32 17000"),
		later(Node, tcpTuning, "MC_TCP_ENABLE_CONNECTION_POOL bool true",
			"MC_TCP_MAX_CONNECTIONS_PER_PEER int32", "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER int32 1024",
			"MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER int32 1024", "MC_TCP_ADMISSION_TIMEOUT_MS int32 1000",
			"MC_TCP_PROTO int32", "MC_TCP_STATUS_TIMEOUT_SEC int32 30"),
		later(Node|Master, redis, "MC_REDIS_USERNAME string", "MC_REDIS_PASSWORD string", "MC_REDIS_DB_INDEX int32 0"),
		later(Node, tent, "MC_USE_TENT presence", "MC_USE_TEV1 presence", "MC_TENT_CONF string", "MC_TENT_RPC_THREADS int32 1", "MC_TE_FILTERS_EXCLUDE string"),
	)
}

func envRDMA() []Name {
	return later(Node, rdma, "MC_NUM_CQ_PER_CTX int32 1", "MC_NUM_COMP_CHANNELS_PER_CTX int32 1", "MC_IB_PORT int32 1", "MC_GID_INDEX int32 -1",
		"MC_PKEY_INDEX int32 0", "MC_MAX_CQE_PER_CTX int32 4096", "MC_MAX_EP_PER_CTX int32 65536", "MC_NUM_QP_PER_EP int32 2", "MC_MAX_SGE int32 4",
		"MC_MAX_WR int32 256", "MC_MAX_INLINE int32 64", "MC_MTU int32 4096", "MC_WORKERS_PER_CTX int32 2", "MC_AUTO_GID_MAX_RETRIES int32 2",
		"MC_IB_TC int32 -1", "MC_IB_SL int32 -1", "MC_IB_PCI_RELAXED_ORDERING int32 1", "MC_MLX5_QP_UDP_SPORTS string",
		"MC_MLX5_QP_LAG_PORT_BALANCE bool false", "MC_MAX_MR_SIZE uint64 1099511627776", "MC_ENABLE_PARALLEL_REG_MR int32 -1",
		"MC_MAX_CONCURRENT_REG_MR int32 0", "MC_PATH_ROUNDROBIN bool false", "MC_ENABLE_DEST_DEVICE_AFFINITY bool false",
		"MC_ENABLE_HCA_PEER_AFFINITY bool false", "MC_NIC_PEER_AFFINITY string", "MC_RDMA_BIND_ADDRESS string", "MC_RDMA_RAIL_PAUSE_SECONDS int32 30",
		"MC_CONN_PAUSE_TTL_MS int32 0", "MC_TRACK_RDMA_POSTED_SLICES bool false", "MC_LOG_RDMA_SLICE_AFFINITY bool false", "MC_TE_FILTERS string",
		"MC_CUSTOM_TOPO_JSON string", "MC_FORCE_HCA presence", "MC_MS_AUTO_DISC bool", "MC_MS_FILTERS string")
}

// envVendor is what transports of single vendors and GPU memory read.
func envVendor() []Name {
	return concat(
		later(Node, gpu, "WITH_NVIDIA_PEERMEM bool true", "MC_DISABLE_GPU_DIRECT_RDMA presence", "MC_FORCE_MNNVL presence", "MC_ENABLE_MNNVL presence",
			"MC_INTRANODE_NVLINK presence", "MC_INTRA_NVLINK presence", "MC_USE_NVLINK_IPC presence", "MC_TPU_PJRT_LIB string"),
		later(Node, cxl, "MC_CXL_DEV_PATH string", "MC_CXL_DEV_SIZE uint64"),
		later(Node, vendor, "MC_FORCE_MUSA presence", "MC_MACA_HOST_TRANSPORT presence", "MC_EFA_NIC_SELECTION string all", "MC_EFA_CQ_THREADS int32 1",
			"MC_MIN_REG_SIZE uint64 67108864", "USE_BAREX presence", "ACCL_MIN_PORT int32 17000", "ACCL_MAX_PORT int32 35000",
			"MC_HIP_NUM_STREAMS int32 64", "MC_HIP_NUM_EVENTS int32 64", "MC_USE_HIP_IPC presence", "MC_DISABLE_HIP presence", "MC_DISABLE_MACA presence",
			"MC_DISABLE_MUSA presence", "MC_MUSA_* string", "MC_MACA_* string", "MC_USE_UBSHMEM_IPC presence", "MC_UBSHMEM_* string",
			"MOONCAKE_DISABLE_HIP_DMABUF presence"),
	)
}
