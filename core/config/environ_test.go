package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

func TestUpstreamVariables(t *testing.T) {
	l := mustLoad(t, RoleStore, nil, []string{
		"MOONCAKE_MASTER=m:50051", "MOONCAKE_TE_META_DATA_SERVER=http://m:8080/metadata", "MC_METADATA_SERVER=http://old:8080/metadata", "MOONCAKE_DEVICE=mlx5_0,mlx5_1",
		"MOONCAKE_GLOBAL_SEGMENT_SIZE=50gb", "MOONCAKE_LOCAL_BUFFER_SIZE=0", "MOONCAKE_LOCAL_HOSTNAME=n1", "MOONCAKE_STORE_CHECKSUM=0", "MC_RPC_TIMEOUT_MS=1500",
		"MC_LOG_LEVEL=TRACE", "MC_SLICE_SIZE=65536", "MC_TCP_BIND_ADDRESS=10.0.0.1", "MC_TCP_SLICE_SIZE=131072", "MOONCAKE_PROTOCOL=", "MOONCAKE_CHECK_SERVER=1", "HOME=/root",
	}, "")
	require.Empty(t, l.Warnings)
	s := l.Config.Store
	require.Equal(t, []any{"m:50051", "http://m:8080/metadata", []string{"mlx5_0", "mlx5_1"}, 50 * GiB, Size(0), "n1", false, "1.5s", "debug", 64 * KiB, "tcp"},
		[]any{s.MasterServerAddress, s.MetadataServer, s.DeviceNames, s.GlobalSegmentSize, s.LocalBufferSize, s.LocalHostname, s.Checksum, duration(s.RPCTimeout),
			l.Config.Log.Level, s.SliceSize, s.Protocol})
	require.Equal(t, "10.0.0.1", s.AdvertiseHost)
	require.Equal(t, map[string]any{"slice_bytes": int64(131072)}, l.Config.Plugins.Transport["tcp"].Config)
	o, _ := l.Origin("store.metadata_server")
	require.Equal(t, "env MOONCAKE_TE_META_DATA_SERVER (upstream name)", o.String())
}

// The memory of a node, under the names of upstream.
func TestUpstreamMemoryVariables(t *testing.T) {
	l := mustLoad(t, RoleStore, nil, []string{"MC_STORE_USE_HUGEPAGE=1", "MC_STORE_HUGEPAGE_SIZE=1GB", "MC_STORE_NUMA_SOCKET_ID=1", "MC_MMAP_ARENA_POOL_SIZE=56gb", "MC_DISABLE_MMAP_ARENA=on"}, "")
	require.Empty(t, l.Warnings)
	s := l.Config.Store
	require.Equal(t, []any{true, "1gb", 1, 56 * GiB, true}, []any{s.UseHugepage, s.HugepageSize, s.NUMANode, s.MmapArenaPoolSize, s.DisableMmapArena})
	_, err := load(t, RoleStore, nil, []string{"MC_STORE_HUGEPAGE_SIZE=4MB"}, "")
	require.ErrorContains(t, err, "must be one of 2MB, 1GB")

	_, err = load(t, RoleStore, nil, []string{"MOONCAKE_STORE_NUMA_STRICT=true"}, "")
	require.ErrorContains(t, err, "needs a store.numa_node")

	// The flag alone switches on a pool of 8 GiB; a size that is given wins.
	require.Equal(t, 8*GiB, mustLoad(t, RoleStore, []string{"--use_mmap_arena_allocator=true"}, nil, "").Config.Store.MmapArenaPoolSize)
	require.Equal(t, 2*GiB, mustLoad(t, RoleStore, []string{"--use_mmap_arena_allocator", "--mmap_arena_pool_size=2147483648"}, nil, "").Config.Store.MmapArenaPoolSize)
	require.Zero(t, mustLoad(t, RoleStore, []string{"--nouse_mmap_arena_allocator"}, nil, "").Config.Store.MmapArenaPoolSize)
}

// The client's settings, under the names of upstream.
func TestUpstreamClientVariables(t *testing.T) {
	l := mustLoad(t, RoleStore, nil, []string{
		"MC_RPC_TIMEOUT_MS=-1", "MC_STORE_CLIENT_MIN_PORT=61000", "MC_STORE_CLIENT_MAX_PORT=65535", "MC_STORE_CLIENT_SETUP_RETRIES=3", "MOONCAKE_TENANT_ID=default",
	}, "")
	require.Empty(t, l.Warnings)
	s := l.Config.Store
	require.Equal(t, []any{"24h", 61000, 65535, 3, "default"}, []any{duration(s.RPCTimeout), s.ClientMinPort, s.ClientMaxPort, s.SetupRetries, s.TenantID})

	l = mustLoad(t, RoleStore, nil, []string{
		"MC_RPC_CONNECT_TIMEOUT_MS=250", "MC_STORE_MEMCPY=1", "MC_STORE_CLIENT_METRIC=0", "MC_STORE_CLIENT_METRIC_INTERVAL=5", "MC_STORE_CLIENT_METRIC_BANDWIDTH=no",
		"MC_STORE_LOCAL_HOT_CACHE_SIZE=1073741824", "MC_STORE_LOCAL_HOT_BLOCK_SIZE=1048576", "MC_STORE_LOCAL_HOT_CACHE_USE_SHM=1", "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD=1",
		"MC_STORE_CLUSTER_ID=blue",
	}, "")
	s = l.Config.Store
	require.Equal(t, []any{"250ms", "on", false, "5s", false, GiB, MiB, true, 1, "blue"}, []any{duration(s.RPCConnectTimeout), s.Memcpy, s.ClientMetric, duration(s.ClientMetricInterval),
		s.ClientMetricBandwidth, s.LocalHotCacheSize, s.LocalHotBlockSize, s.LocalHotCacheUseShm, s.LocalHotAdmissionThreshold, s.ClusterID})
}

// A master shares the variables of the metadata service with its neighbours, and minds
// one that it cannot use only where it would use it.
func TestTheMetadataServiceOfAMaster(t *testing.T) {
	env := []string{"MOONCAKE_TE_META_DATA_SERVER=zookeeper://e:2181", "MC_METADATA_CLUSTER_ID=blue"}
	l := mustLoad(t, RoleMaster, nil, env, "")
	require.Empty(t, l.Warnings)
	require.Equal(t, "blue", l.Config.Store.MetadataClusterID)
	_, err := load(t, RoleMaster, []string{"--enable_metadata_cleanup_on_timeout"}, env, "")
	require.ErrorContains(t, err, "etcd://host:port,host:port")
	_, err = load(t, RoleStore, nil, env, "")
	require.True(t, IsUsage(err))
}

func TestMetadataServices(t *testing.T) {
	for _, conn := range []string{"P2PHANDSHAKE", "http://m:8080/metadata", "https://m/metadata", "etcd://a:2379,b:2379", "a:2379,b:2379", "redis://r:6379"} {
		require.Equal(t, conn, mustLoad(t, RoleStore, nil, []string{"MC_METADATA_SERVER=" + conn}, "").Config.Store.MetadataServer)
	}
}

func TestOurVariablesWinOverUpstreams(t *testing.T) {
	l := mustLoad(t, RoleStore, nil, []string{"MOONCAKE_STORE_MASTER_SERVER_ADDRESS=ours:1", "MOONCAKE_MASTER=theirs:1"}, "")
	require.Equal(t, "ours:1", l.Config.Store.MasterServerAddress)
	o, _ := l.Origin("store.master_server_address")
	require.Equal(t, "env MOONCAKE_STORE_MASTER_SERVER_ADDRESS", o.String())
}

func TestUnknownVariables(t *testing.T) {
	l := mustLoad(t, RoleMaster, nil, []string{
		"MOONCAKE_MASTER_LEASE_TL=5s", "MC_LOG_LEVL=INFO", "MOONCAKE_PLUGINS_EVICT_LRU_CONFIG_X=1", "MOONCAKE_XYZZY_PLUGH_SECRET=hush",
		"MC_HOST_minio=https://key:secret@host", "MC_SID=1", "NOT_OURS=1",
	}, "")
	require.Equal(t, []string{
		"env MC_LOG_LEVL is not a known variable and has no effect; did you mean MC_LOG_LEVEL?",
		"env MOONCAKE_MASTER_LEASE_TL is not a known variable and has no effect; did you mean MOONCAKE_MASTER_LEASE_TTL?",
		"env MOONCAKE_PLUGINS_EVICT_LRU_CONFIG_X is not a known variable and has no effect; the settings of plugins are given in the file, or with --set",
		"env MOONCAKE_XYZZY_PLUGH_SECRET is not a known variable and has no effect",
	}, warningTexts(l))
}

func TestVariablesOfOtherRolesAreNotMentioned(t *testing.T) {
	env := []string{"MOONCAKE_MASTER=m:1", "MC_WORKERS_PER_CTX=3", "MOONCAKE_CONFIG_PATH=/nowhere.json", "MOONCAKE_OFFLOAD_ENABLED=1"}
	require.Empty(t, mustLoad(t, RoleMaster, nil, env, "").Warnings)
	require.Empty(t, mustLoad(t, RoleMetadata, nil, env, "").Warnings)
	require.Equal(t, []string{"env MC_WORKERS_PER_CTX (upstream name) has no effect; not supported yet: tuning of threads and paths; paths are chosen by topology and measured speed here"}, warningTexts(mustLoad(t, RoleStore, nil, env[:2], "")))
}

// Every variable of the table either sets its key, or says that it does not, or belongs
// to another program. None does nothing in silence.
func TestEveryVariableSpeaksUp(t *testing.T) {
	t.Parallel()
	sample := map[upstream.Type]string{upstream.String: "xyzzy", upstream.Bool: "true", upstream.Int32: "7", upstream.Int64: "7", upstream.Uint32: "7", upstream.Uint64: "70000",
		upstream.Double: "0.25", upstream.Size: "7GB", upstream.Presence: "1"}
	byKey := newLoader(Options{}).byKey
	for _, n := range upstream.Environment() {
		name, role := strings.Replace(n.Name, "*", "XYZ", 1), RoleStore
		if n.Readers&upstream.Node == 0 {
			role = RoleMaster
		}
		text := sample[n.Type]
		switch {
		case n.Name == "MOONCAKE_CONFIG_PATH":
			continue
		case n.Default == "true":
			text = "false"
		case n.Key == "store.rpc_min_port", n.Key == "store.rpc_max_port":
			text = "16000"
		case strings.HasSuffix(n.Name, "_PORT") && n.Key != "":
			text = "14000"
		case n.Key == "store.memcpy":
			text = "0"
		case n.Key == "store.handshake_max_length":
			text = "2097152"
		case n.Key == "store.metadata_server":
			text = "http://x/metadata"
		case n.Key == "store.master_server_address":
			text = "x:1"
		case n.Enum != "":
			text = words(n.Enum)[0]
		}
		l, err := load(t, role, nil, []string{name + "=" + text}, "")
		switch {
		case n.Refuse, byKey[n.Key].soon != "" && byKey[n.Key].refuse:
			require.True(t, IsUsage(err), name)
		case n.Readers == upstream.Elsewhere:
			require.NoError(t, err, name)
			require.Empty(t, l.Warnings, name)
		case n.Key != "":
			require.NoError(t, err, name)
			o, ok := l.Origin(n.Key)
			require.True(t, ok && o.Name == name, "%s: %s", name, o)
		default:
			require.NoError(t, err, name)
			require.Len(t, l.Warnings, 1, name)
			require.Contains(t, l.Warnings[0].String(), name+" ")
			require.NotContains(t, l.Warnings[0].String(), "xyzzy") // it may be a secret
		}
	}
}

func TestMalformedVariables(t *testing.T) {
	_, err := load(t, RoleStore, nil, []string{"MC_RPC_TIMEOUT_MS=soon"}, "")
	require.ErrorContains(t, err, `env MC_RPC_TIMEOUT_MS (upstream name) = "soon": must be a duration`)
	l := mustLoad(t, RoleStore, nil, []string{"MC_WORKERS_PER_CTX=many"}, "")
	require.Len(t, l.Warnings, 1) // it would have no effect either way
}

// The variables that Kubernetes makes for a service named mooncake-master-metrics.
func TestKubernetesServiceLinks(t *testing.T) {
	l := mustLoad(t, RoleMaster, nil, []string{
		"MOONCAKE_MASTER_METRICS_SERVICE_HOST=10.0.0.5", "MOONCAKE_MASTER_METRICS_SERVICE_PORT=9003", "MOONCAKE_MASTER_METRICS_SERVICE_PORT_HTTP=9003",
		"MOONCAKE_MASTER_METRICS_PORT=tcp://10.0.0.5:9003", "MOONCAKE_MASTER_METRICS_PORT_9003_TCP=tcp://10.0.0.5:9003", "MOONCAKE_MASTER_METRICS_PORT_9003_TCP_ADDR=10.0.0.5",
	}, "")
	require.Empty(t, l.Warnings)
	require.Equal(t, 9003, l.Config.Master.MetricsPort)
	require.Equal(t, 9004, mustLoad(t, RoleMaster, nil, []string{"MOONCAKE_MASTER_METRICS_PORT=9004"}, "").Config.Master.MetricsPort)
}
