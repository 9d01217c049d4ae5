package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// Values that a type never takes.
func malformed() map[upstream.Type][]string {
	return map[upstream.Type][]string{
		upstream.Bool:   {"perhaps", "2", ""},
		upstream.Int32:  {"x", "1.5", "2147483648", "-2147483649", ""},
		upstream.Int64:  {"x", "1.5", "9223372036854775808", ""},
		upstream.Uint32: {"x", "-1", "4294967296", ""},
		upstream.Uint64: {"x", "-1", "18446744073709551616", ""},
		upstream.Double: {"x", "NaN", "Inf", ""},
		// A duration is a whole number of ms, s, m or h that is not negative.
		upstream.Duration: {"x", "-1", "-5s", "5 parsecs", "s", "99999999999999999999", "10 s s", ""},
		upstream.Size:     {"x", "-1", "4gbb", ""},
	}
}

// Every flag of the master and of the client refuses what its type does not take, as a
// flag and in the file, and says where it was given.
func TestEveryFlagRefusesWhatIsMalformed(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleMaster, RoleStore} {
		for _, n := range role.upstreamFlags() {
			for _, text := range malformed()[n.Type] {
				if strings.HasPrefix(n.Name, "use_mmap") { // anything but a yes is a no
					continue
				}
				_, err := load(t, role, []string{"--" + n.Name + "=" + text}, nil, "")
				require.True(t, IsUsage(err), "--%s=%s: %v", n.Name, text, err)
				require.ErrorContains(t, err, "--"+n.Name)
			}
		}
		for _, n := range role.upstreamKeys() {
			bad := malformed()[n.Type]
			if len(bad) == 0 || n.Readers == upstream.Elsewhere {
				continue
			}
			_, err := load(t, role, nil, nil, n.Name+": "+bad[0]+"\n")
			require.True(t, IsUsage(err), "%s: %s", n.Name, bad[0])
			require.ErrorContains(t, err, ":1 "+n.Name)
		}
	}
}

// The bounds of upstream's flags: the last value that is taken and
// the first one that is not.
func TestBoundsOfFlags(t *testing.T) {
	for _, c := range []struct{ flag, good, bad string }{
		{"eviction_ratio", "0", "-0.01"},
		{"eviction_ratio", "1", "1.01"},
		{"eviction_high_watermark_ratio", "0", "-0.01"},
		{"eviction_high_watermark_ratio", "1.0", "1.01"},
		{"nof_eviction_ratio", "1", "1.1"},
		{"nof_eviction_high_watermark_ratio", "0", "-0.1"},
		{"offload_cap_ratio", "1", "1.1"},
		{"offload_cap_ratio", "0", "-0.1"},
		{"offloading_queue_limit", "1", "0"},
		{"offloading_queue_limit", "100000000", "100000001"},
		{"promotion_max_per_heartbeat", "1", "0"},
		{"snapshot_retention_count", "1", "0"},
		{"dynamic_replication_heat_window_seconds", "1", "0"},
		{"dynamic_replication_admission_qps_threshold", "0.001", "0"},
		{"dynamic_replication_max_memory_replicas", "1", "0"},
		{"put_start_release_timeout_sec", "31", "30"},
		{"put_start_discard_timeout_sec", "599", "600"},
		{"default_kv_soft_pin_ttl", "86400000", "86400001"},
		{"max_kv_soft_pin_ttl", "30m", "1799999"},
		{"default_kv_lease_ttl", "1", "0"},
		{"client_ttl", "1", "0"},
		{"cluster_id", strings.Repeat("x", 128), strings.Repeat("x", 129)},
		{"cluster_id", "A-z_0.9", "a b"},
		{"metrics_port", "65535", "65536"},
		{"port", "65535", "65536"},
		{"rpc_port", "65535", "-1"},
		{"http_metadata_server_port", "0", "-1"},
		{"rpc_conn_timeout_seconds", "0", "-1"},
		{"max_total_finished_tasks", "4294967295", "4294967296"},
		{"max_total_pending_tasks", "0", "-1"},
		{"max_retry_attempts", "4294967295", "4294967296"},
		{"pending_task_timeout_sec", "0", "-1"},
		{"processing_task_timeout_sec", "0", "-1"},
		{"memory_allocator", "offset", "cachelib"},
		{"memory_allocator", "OFFSET", "malloc"},
		{"tenant_quota_connector_type", "etcd", "redis"},
		{"dynamic_replication_mode", "observe", "enforce"},
		{"ha_backend_type", "k8s", "zookeeper"},
		{"stripe_size", "1MiB", "1048575"},
		{"stripe_size", "1TiB", "1025GiB"},
		{"why_history", "0", "-1"},
		{"why_history", "16777216", "16777217"},
		{"probe_lease_ttl", "0", "-1"},
	} {
		_, err := load(t, RoleMaster, []string{"-" + c.flag, c.good}, nil, "")
		require.NoError(t, err, "%s %s", c.flag, c.good)
		_, err = load(t, RoleMaster, []string{"-" + c.flag, c.bad}, nil, "")
		require.True(t, IsUsage(err), "%s %s", c.flag, c.bad)
		require.ErrorContains(t, err, c.flag, c.bad)
	}
}

func TestDurationSyntaxOfFlags(t *testing.T) {
	for text, want := range map[string]string{
		"5000": "5s", "5000ms": "5s", "5s": "5s", "5S": "5s", " 5 s ": "5s", "2m": "2m", "1H": "1h", "250Ms": "250ms", "0005": "5ms", "1m30s": "1m30s",
	} {
		l := mustLoad(t, RoleMaster, []string{"--default_kv_lease_ttl=" + text}, nil, "")
		require.Equal(t, want, duration(l.Config.Master.LeaseTTL), "%q", text)
		l = mustLoad(t, RoleMaster, nil, nil, "default_kv_lease_ttl: '"+text+"'\n")
		require.Equal(t, want, duration(l.Config.Master.LeaseTTL), "%q", text)
	}
}

// A flag wins over the file under any of its names, also with the value of its default;
// the variable stands between them.
func TestEveryFlagWinsOverTheFile(t *testing.T) {
	t.Parallel()
	other := map[upstream.Type]string{upstream.String: "x", upstream.Int32: "17", upstream.Int64: "17", upstream.Uint32: "17", upstream.Uint64: "45", upstream.Double: "0.25",
		upstream.Duration: "45m", upstream.Size: "45MB"}
	keys := newLoader(Options{}).byKey
	for _, n := range RoleMaster.upstreamFlags() {
		f := keys[n.Key]
		if n.Key == "" || n.ZeroUnset || n.Fallback || n.Values != nil || f.section != "master" || n.Name == "enable_kv_events" || n.Name == "enable_ha" || f.refuse && f.soon != "" || len(f.enum) == 1 {
			continue
		}
		text := other[n.Type]
		switch {
		case n.Type == upstream.Bool:
			text = map[string]string{"true": "false", "false": "true"}[n.Default]
		case len(f.enum) > 1:
			text = f.enum[1]
		case n.Name == "put_start_release_timeout_sec":
			text = "700"
		}
		key := n.Name
		for file, flag := range upstream.MasterFileNames() {
			if flag == n.Name {
				key = file
			}
		}
		file := key + ": " + text + "\n"
		value := func(args, env []string) (string, Layer) {
			l := mustLoad(t, RoleMaster, args, env, file)
			o, _ := l.Origin(n.Key)
			return format(l.values[n.Key]), o.Layer
		}
		usual := format(mustLoad(t, RoleMaster, nil, nil, "").values[n.Key])
		got, layer := value(nil, nil)
		require.NotEqual(t, usual, got, n.Name)
		require.Equal(t, LayerFile, layer, n.Name)
		if f.def != "" {
			got, layer = value(nil, []string{f.env() + "=" + f.def})
			require.Equal(t, usual, got, n.Name)
			require.Equal(t, LayerEnv, layer, n.Name)
		}
		got, layer = value([]string{"--" + n.Name + "=" + n.Default}, []string{f.env() + "=" + text})
		require.Equal(t, usual, got, n.Name)
		require.Equal(t, LayerFlag, layer, n.Name)
	}
}

// A flag of a capability that is not there is fine at the value that is off, in every
// spelling of it.
func TestOffIsFine(t *testing.T) {
	for _, args := range [][]string{
		{"--noenable_ha"}, {"-enable_ha=false"}, {"--enable_ha", "--noenable_ha"}, {"-enable_ha=0"}, {"--enable_oplog=no"}, {"--noenable_snapshot", "--enable_snapshot_restore=f"},
		{"--enable_offload=off"}, {"--nooffload_on_evict"}, {"--nooffload_force_evict"}, {"--nopromotion_on_hit"}, {"--root_fs_dir="}, {"--enable_cxl=false"},
		{"--memory_allocator=offset"}, {"--dynamic_replication_mode=off"}, {"--noenable_kv_events"}, {"--noenable_multi_tenants"},
	} {
		require.Empty(t, mustLoad(t, RoleMaster, args, nil, "").Warnings, args)
	}
}

// A shipped sample file of upstream, whose values are not its
// defaults.
func TestASampleFile(t *testing.T) {
	l := mustLoad(t, RoleMaster, nil, nil, `
enable_metric_reporting: true
metrics_port: 9003
rpc_port: 50051
rpc_thread_num: 0
rpc_address: "0.0.0.0"
rpc_conn_timeout_seconds: 0
rpc_enable_tcp_no_delay: true
default_kv_lease_ttl: 5000
default_kv_soft_pin_ttl: 1800000
allow_evict_soft_pinned_objects: true
eviction_ratio: 0.1
eviction_high_watermark_ratio: 1.0
client_live_ttl_sec: 60
enable_ha: false
etcd_endpoints: ""
cluster_id: "mooncake_cluster"
memory_allocator: "offset"
`)
	require.Empty(t, l.Warnings)
	line := StartLine(l.Config, 4)
	for _, want := range []string{"default_kv_lease_ttl=5000", "eviction_ratio=0.1", "eviction_high_watermark_ratio=1", "client_ttl=60"} {
		require.Contains(t, line, ", "+want+",")
	}
}
