package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong in a file is named with its line, and what to write instead.
func TestStrictFile(t *testing.T) {
	for _, c := range []struct {
		role Role
		text string
		want []string
	}{
		{RoleMaster, "log:\n  level: info\nmaster:\n  lease_tl: 5s\n", []string{":4: master.lease_tl", "unknown key", "did you mean master.lease_ttl?"}},
		{RoleMaster, "mastr: {}\n", []string{":1: mastr", "did you mean master?"}},
		{RoleMaster, "lease_ttl: 5s\n", []string{"did you mean master.lease_ttl?"}},
		{RoleMaster, "default_kv_lease_tt: 5s\n", []string{"did you mean default_kv_lease_ttl?"}},
		{RoleMaster, "global_segment_size: 4gb\n", []string{"a key of mooncake_client; write store.global_segment_size"}},
		{RoleStore, "enable_ha: true\n", []string{"unknown key", "a key of mooncake_master"}},
		{RoleMaster, "a:\n  b:\n    rpc_port: 1\n", []string{":3: a.b.rpc_port", "unknown key"}},
		{RoleMaster, "master: {lease_ttl: soon}\n", []string{`master.lease_ttl = "soon"`, "must be a duration"}},
		{RoleMaster, "master: {lease_ttl: 0}\n", []string{"must be from 1ms to 720h"}},
		{RoleMaster, "master: {lease_ttl: -5s}\n", []string{"must be a duration"}},
		{RoleMaster, "store: {transfer_timeout: 30}\n", []string{"needs a unit", "30s"}},
		{RoleMaster, "store: {global_segment_size: 4gbb}\n", []string{`"4gbb"`, "KiB", "4GB"}},
		{RoleMaster, "store: {slice_size: 1KB}\n", []string{"from 4KiB to 64MiB"}},
		{RoleMaster, "master: {eviction_ratio: 1.5}\n", []string{"from 0 to 1"}},
		{RoleMaster, "master: {eviction_ratio: .nan}\n", []string{"finite"}},
		{RoleMaster, "eviction_ratio: -0.1\n", []string{"from 0 to 1"}},
		{RoleMaster, "master: {rpc_port: 65536}\n", []string{"from 0 to 65535"}},
		{RoleMaster, "master: {rpc_port: http}\n", []string{"whole number"}},
		{RoleMaster, "master: {rpc_port: [1]}\n", []string{"must be a port (from 0 to 65535), not a list"}},
		{RoleMaster, "master: {rpc_port: {a: 1}}\n", []string{"not a mapping"}},
		{RoleMaster, "rpc_port: [1]\n", []string{"single value, not a list"}},
		{RoleMaster, "master: {rpc_port: }\n", []string{"has no value"}},
		{RoleMaster, "rpc_port: \n", []string{"has no value"}},
		{RoleMaster, "master: 5\n", []string{"master", "must be a mapping"}},
		{RoleMaster, "log: {level: loud}\n", []string{"debug, info, warn, error"}},
		{RoleMaster, "log: {format: xml}\n", []string{"text, json"}},
		{RoleMaster, "store: {transports: [tcp, {a: b}]}\n", []string{"single values"}},
		{RoleMaster, "store: {transports: [tcp, tcp]}\n", []string{"listed twice"}},
		{RoleMaster, "store: {transports: [TCP!]}\n", []string{"name of a plugin"}},
		{RoleMaster, "store: {transports: []}\n", []string{"at least one"}},
		{RoleMaster, "store: {master_server_address: nowhere}\n", []string{"host:port"}},
		{RoleMaster, "store: {metadata_server: 'etcd://'}\n", []string{"etcd://host:port,host:port"}},
		{RoleMaster, "store: {metadata_server: 'ftp://a:1'}\n", []string{"redis://host:port"}},
		{RoleMaster, "store: {metadata_server: nowhere}\n", []string{"P2PHANDSHAKE, http://"}},
		{RoleMaster, "store: {local_hostname: ''}\n", []string{"must not be empty"}},
		{RoleMaster, "store: {max_inflight_bytes: 64KiB}\n", []string{"at least store.slice_size (1MiB)"}},
		{RoleMaster, "store: {metadata_cluster_id: a/b}\n", []string{"letters, digits"}},
		{RoleMaster, "plugins: {lock: lock.yaml}\n", []string{"lock.yaml", "must be an absolute path"}},
		{RoleMaster, "cluster_id: 'a b'\n", []string{"letters, digits"}},
		{RoleMaster, "put_start_release_timeout_sec: 30\n", []string{":1", "longer than master.put_start_discard_timeout (30s)"}},
		{RoleMaster, "put_start_discard_timeout_sec: 700\n", []string{":1", "shorter than master.put_start_release_timeout (10m)"}},
		{RoleMaster, "enable_http_metadata_server: true\nhttp_metadata_server_port: 9003\n", []string{":2", "must differ from master.metrics_port"}},
		{RoleMaster, "rpc_port: 9003\n", []string{":1", "master.rpc_port", "must differ from master.metrics_port (9003)"}},
		{RoleMaster, "default_kv_soft_pin_ttl: 25h\n", []string{":1", "master.soft_pin_ttl", "must be at most master.max_soft_pin_ttl (24h)"}},
		{RoleMaster, "max_kv_soft_pin_ttl: 60000\n", []string{":1", "master.max_soft_pin_ttl", "must be at least master.soft_pin_ttl (30m)"}},
		{RoleMaster, "tenant_quota_connector_type: mysql\n", []string{"must be one of file"}},
		{RoleMaster, "store: {client_min_port: 40000}\n", []string{"from 1024 to 32767 or from 61000 to 65535"}},
		{RoleMaster, "store: {client_max_port: 60999}\n", []string{"from 1024 to 32767 or from 61000 to 65535"}},
		{RoleMaster, "store: {client_max_port: 61000}\n", []string{"same range"}},
		{RoleMaster, "store: {rpc_max_port: 61000}\n", []string{"same range"}},
		{RoleMaster, "store: {client_min_port: 14301}\n", []string{"at most store.client_max_port (14300)"}},
		{RoleMaster, "store: {tenant_id: " + strings.Repeat("x", 257) + "}\n", []string{"at most 256 bytes"}},
		{RoleMaster, "store: {rpc_timeout: -5}\n", []string{"must be a duration"}},
		{RoleMaster, "memory_allocator: malloc\n", []string{"offset, cachelib"}},
		{RoleMaster, "default_kv_lease_ttl: 5s\nmaster:\n  lease_ttl: 6s\n", []string{":3", "was also given by file", ":1 default_kv_lease_ttl", "keep one"}},
		{RoleMaster, "master.lease_ttl: 5s\nmaster: {lease_ttl: 6s}\n", []string{"was also given"}},
		{RoleAll, "port: 5\n", []string{"one thing to mooncake_master", "master.rpc_port or store.port"}},
		{RoleAll, "plugins: {codec: {x: {}}}\n", []string{"plugins.codec", "unknown key"}},
		{RoleAll, "plugins: {evict: {LRU: {}}}\n", []string{"lower-case"}},
		{RoleAll, "plugins: {evict: {lru: 5}}\n", []string{"must be a mapping"}},
		{RoleAll, "plugins: {evict: {lru: {mod: auto}}}\n", []string{"did you mean plugins.evict.lru.mode?"}},
		{RoleAll, "plugins: {evict: {lru: {mode: fast}}}\n", []string{"auto, inprocess, subprocess"}},
		{RoleAll, "plugins: {evict: {lru: {config: [1]}}}\n", []string{"must be a mapping of keys to values, not a list", "config"}},
		{RoleAll, "plugins: {evict: {lru: {mode: {a: 1}}}}\n", []string{"not a mapping"}},
		{RoleAll, "log: {level: 'a\x01'}\n", []string{"not valid YAML"}},
		{RoleAll, "store: {local_hostname: \"a\\nb\"}\n", []string{"control characters"}},
		{RoleAll, "store: {local_hostname: " + strings.Repeat("x", maxText+1) + "}\n", []string{"at most 4096 bytes"}},
	} {
		_, err := load(t, c.role, nil, nil, c.text)
		require.True(t, IsUsage(err), "%q: %v", c.text, err)
		for _, want := range c.want {
			require.ErrorContains(t, err, want, "%.60q", c.text)
		}
		require.ErrorContains(t, err, "conf.yaml", "%.60q", c.text)
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	_, err := load(t, RoleMaster, []string{"--metrics_port=x"}, []string{"MOONCAKE_MASTER_CLIENT_TTL=never"}, "nope: 1\nmaster: {rpc_port: x}\n")
	var ps Problems
	require.ErrorAs(t, err, &ps)
	require.Len(t, ps, 4)
	require.ErrorContains(t, err, `flag --metrics_port = "x"`)
	require.ErrorContains(t, err, `env MOONCAKE_MASTER_CLIENT_TTL = "never"`)
}

func TestReportsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "unknown%d: 1\n", i)
	}
	_, err := load(t, RoleAll, nil, nil, text.String())
	var ps Problems
	require.ErrorAs(t, err, &ps)
	require.Len(t, ps, maxProblems+1)
	require.ErrorContains(t, ps[maxProblems], "more that is wrong")

	text.Reset()
	text.WriteString("plugins:\n  evict:\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "    p%d: {}\n", i)
	}
	_, err = load(t, RoleAll, nil, nil, text.String())
	require.ErrorContains(t, err, "one plugin more")

	text.Reset()
	text.WriteString("plugins: {evict: {lru: {config: {\n")
	for i := range 5000 {
		fmt.Fprintf(&text, " k%d: 1,\n", i)
	}
	l := mustLoad(t, RoleAll, nil, nil, text.String()+"}}}}\n")
	require.Len(t, l.Config.Plugins.Evict["lru"].Config, 5000)
}

func TestFilesOfBothForms(t *testing.T) {
	l := mustLoad(t, RoleMaster, nil, nil, "rpc_port: 1234\nclient_live_ttl_sec: 60\neviction_ratio: 0.1\nmaster:\n  lease_ttl: 5000\n  metrics_host: '::'\nlog.level: debug\n")
	m := l.Config.Master
	require.Equal(t, []any{1234, "1m", 0.1, "5s", "::", "debug"}, []any{m.RPCPort, duration(m.ClientTTL), m.EvictionRatio, duration(m.LeaseTTL), m.MetricsHost, l.Config.Log.Level})
	o, _ := l.Origin("master.client_ttl")
	require.Equal(t, "file "+l.File+":2 client_live_ttl_sec (upstream name)", o.String())

	service := write(t, "service.json", `{"local_hostname": "node7", "metadata_server": "http://m:8080/metadata", "global_segment_size": "3.125 GB",
		"local_buffer_size": 1073741824, "protocol": "tcp", "device_name": "", "master_server_address": "m:50051", "ssd_offload_path": null, "tenant_id": "default", "mode": "standalone-store"}`)
	l, err := Load(Options{Role: RoleStore, Environ: []string{"MOONCAKE_CONFIG_PATH=" + service, "MOONCAKE_MASTER=other:50051"}})
	require.NoError(t, err)
	s := l.Config.Store
	require.Equal(t, []any{"node7", Size(3355443200), GiB, "other:50051"}, []any{s.LocalHostname, s.GlobalSegmentSize, s.LocalBufferSize, s.MasterServerAddress})
	require.Empty(t, l.Warnings)
}

func TestDeprecatedPair(t *testing.T) {
	for _, c := range []struct {
		args []string
		file string
		want int
	}{
		{[]string{"--port=7"}, "", 7},
		{[]string{"--port=7", "--rpc_port=0"}, "", 7},
		{[]string{"--port=7", "--rpc_port=8"}, "", 8},
		{[]string{"--rpc_port=0"}, "", 50051},
		{[]string{"--rpc_port=0"}, "rpc_port: 9\n", 9},
		{[]string{"--port=7"}, "rpc_port: 9\n", 7},
		{nil, "port: 7\nrpc_port: 0\n", 7},
		{nil, "port: 7\nrpc_port: 9\n", 9},
		{nil, "port: 7\nmaster: {rpc_port: 0}\n", 0},
	} {
		require.Equal(t, c.want, mustLoad(t, RoleMaster, c.args, nil, c.file).Config.Master.RPCPort, "%v %q", c.args, c.file)
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir + "/none.yaml":                       "does not exist",
		dir:                                      "extension",
		write(t, "c.toml", "a = 1"):              ".toml are not understood",
		write(t, "c.yaml", ""):                   "is empty",
		write(t, "d.yaml", "a: [\n"):             "not valid YAML",
		write(t, "c.json", "{\n\"log\": {,}\n}"): "c.json:2",
	} {
		_, err := Check(RoleMaster, path, nil)
		require.True(t, IsUsage(err), path)
		require.ErrorContains(t, err, want)
	}
	_, err := os.Stat(dir)
	require.NoError(t, err)
}

func TestValuesThatFallBack(t *testing.T) {
	for given, want := range map[string]string{"cxl": "which is not supported yet; random is used", "fastest": "which is not one of random, free_ratio_first, ssd_free_ratio_first, local_first; random is used"} {
		l := mustLoad(t, RoleMaster, []string{"-allocation_strategy", given}, nil, "")
		require.Equal(t, "random", l.Config.Master.AllocationStrategy)
		require.Len(t, l.Warnings, 1)
		require.Contains(t, l.Warnings[0].String(), want)
	}
	for _, given := range []string{"random", "free_ratio_first", "ssd_free_ratio_first", "local_first"} {
		l := mustLoad(t, RoleMaster, []string{"-allocation_strategy", given}, nil, "")
		require.Equal(t, given, l.Config.Master.AllocationStrategy)
		require.Empty(t, l.Warnings)
	}
}
