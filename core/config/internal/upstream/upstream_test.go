package upstream

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// golden reads the lines of a file of facts.
func golden(t *testing.T, file string) [][]string {
	f, err := os.Open("testdata/" + file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read from
	var out [][]string
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] != '#' {
			out = append(out, append(strings.SplitN(line, " ", 3), "", ""))
		}
	}
	return out
}

// Every flag that upstream has is in the table with its type and
// default, and the table has no others but old names.
func TestFlagsAgreeWithTheFacts(t *testing.T) {
	for _, c := range []struct {
		file  string
		table []Name
		old   []string
	}{
		{"mooncake_master.txt", MasterFlags(), []string{"conf_path", "snapshot_payload_store_type", "snapshot_payload_backend_type", "snapshot_catalog_backend_type", "snapshot_catalog_backend_connstring"}},
		{"mooncake_client.txt", ClientFlags(), []string{"device_name"}},
	} {
		rows := golden(t, c.file)
		for _, row := range rows {
			n, ok := Find(c.table, row[0])
			require.True(t, ok, row[0])
			require.Equal(t, row[1], string(n.Type), row[0])
			require.Equal(t, row[2], n.Default, row[0])
		}
		for _, old := range c.old {
			n, ok := Find(c.table, old)
			require.True(t, ok && n.Deprecated, old)
		}
		require.Len(t, c.table, len(rows)+len(c.old), c.file)
	}
}

func TestVariablesAgreeWithTheFacts(t *testing.T) {
	table := Environment()
	rows := golden(t, "environment.txt")
	require.Greater(t, len(rows), 180)
	for _, row := range rows {
		_, ok := Find(table, row[0])
		require.True(t, ok, row[0])
	}
}

// What holds for every entry of every table.
func TestTablesAreSound(t *testing.T) {
	types := map[Type]bool{String: true, Bool: true, Int32: true, Int64: true, Uint32: true, Uint64: true, Double: true, Duration: true, Size: true, Presence: true}
	for name, table := range map[string][]Name{"master": MasterFlags(), "client": ClientFlags(), "service": ServiceKeys(), "process": ProcessFlags(), "env": Environment()} {
		seen := map[string]bool{}
		for _, n := range table {
			require.False(t, seen[n.Name], "%s: %s is listed twice", name, n.Name)
			seen[n.Name] = true
			require.True(t, types[n.Type], "%s: %s has type %q", name, n.Name, n.Type)
			file := n.Name == "config_path" || n.Name == "conf_path" || n.Name == "MOONCAKE_CONFIG_PATH"
			require.True(t, file || (n.Key != "") != (n.Feature != "" || n.Readers == Elsewhere), "%s: %s must have a key or a capability", name, n.Name)
			require.False(t, n.Refuse && n.Key != "", "%s: %s", name, n.Name)
			if n.Default != "" && n.Type != Presence {
				_, err := n.canonical(n.Default)
				require.NoError(t, err, "%s: the default of %s", name, n.Name)
			}
			if name == "env" {
				require.NotZero(t, n.Readers, n.Name)
			}
		}
	}
	for _, flag := range MasterFileNames() {
		_, ok := Find(MasterFlags(), flag)
		require.True(t, ok, flag)
	}
}

func TestJudge(t *testing.T) {
	all := slices.Concat(MasterFlags(), ClientFlags(), ProcessFlags(), Environment())
	for _, c := range []struct {
		name, text string
		verdict    Verdict
		ours       string
	}{
		{"enable_ha", "true", Mapped, "true"},
		{"enable_oplog", "false", Same, ""},
		{"enable_oplog", "true", Covered, ""},
		{"enable_snapshot", "1", Covered, ""},
		{"root_fs_dir", "", Mapped, ""},
		{"root_fs_dir", "/data", Mapped, "/data"},
		{"memory_allocator", "Offset", Same, ""},
		{"memory_allocator", "cachelib", Refused, ""},
		{"tenant_id", "blue", Mapped, "blue"},
		{"dynamic_replication_mode", "off", Same, ""},
		{"dynamic_replication_mode", "observe", Later, ""},
		{"dynamic_replication_mode", "enforce", Refused, ""},
		{"enable_kv_events", "true", Mapped, "true"},
		{"offload_on_evict", "true", Mapped, "true"},
		{"dynamic_replication_admission_qps_threshold", "0.01", Later, ""},
		{"max_threads", "16", Same, ""},
		{"max_threads", "4", Later, ""},
		{"default_kv_soft_pin_ttl", "31m", Mapped, "31m"},
		{"max_log_size", "100", Mapped, "100MiB"},
		{"logtostderr", "1", Mapped, "only"},
		{"logtostderr", "false", Same, ""},
		{"alsologtostderr", "yes", Mapped, "also"},
		{"MC_STORE_MEMCPY", "0", Mapped, "off"},
		{"MC_STORE_MEMCPY", "True", Mapped, "on"},
		{"MC_RPC_TIMEOUT_MS", "-1", Mapped, "24h"},
		{"MC_RPC_CONNECT_TIMEOUT_MS", "250", Mapped, "250"},
		{"MC_RPC_CONNECT_TIMEOUT_MS", "-x", Mapped, "-x"},
		{"nof_eviction_ratio", "0.050", Same, ""},
		{"rpc_port", "0", Same, ""},
		{"rpc_port", "7", Mapped, "7"},
		{"default_kv_lease_ttl", "5s", Mapped, "5s"},
		{"minloglevel", "2", Mapped, "error"},
		{"v", "0", Same, ""},
		{"v", "3", Mapped, "debug"},
		{"MC_LOG_LEVEL", "Warning", Mapped, "warn"},
		{"MC_FORCE_TCP", "anything", Mapped, "tcp"},
		{"MC_USE_TENT", "0", Later, ""},
	} {
		n, ok := Find(all, c.name)
		require.True(t, ok, c.name)
		verdict, ours, err := n.Judge(c.text)
		require.NoError(t, err, "%s=%s", c.name, c.text)
		require.Equal(t, c.verdict, verdict, "%s=%s", c.name, c.text)
		require.Equal(t, c.ours, ours, "%s=%s", c.name, c.text)
	}
	for name, text := range map[string]string{
		"enable_oplog": "perhaps", "memory_allocator": "malloc", "nof_eviction_ratio": "1.5", "nof_heartbeat_interval_sec": "x", "snapshot_retention_count": "0",
		"logtostderr": "perhaps", "v": "loud", "dynamic_replication_admission_qps_threshold": "0", "dynamic_replication_max_memory_replicas": "0", "cxl_size": "8GB", "oplog_poll_interval_ms": "3000000000",
		"minloglevel": "9",
	} {
		n, ok := Find(all, name)
		require.True(t, ok, name)
		_, _, err := n.Judge(text)
		require.Error(t, err, "%s=%s", name, text)
	}
}

func TestFindPrefersTheLongestWildcard(t *testing.T) {
	table := []Name{{Name: "A_*"}, {Name: "A_B_*"}, {Name: "A_B_C"}}
	for name, want := range map[string]string{"A_X": "A_*", "A_B_X": "A_B_*", "A_B_C": "A_B_C"} {
		n, ok := Find(table, name)
		require.True(t, ok)
		require.Equal(t, want, n.Name)
	}
	_, ok := Find(table, "B")
	require.False(t, ok)
	require.NotContains(t, Names(table), "A_*")
}

func TestUnitsOfDurationsFollowTheNames(t *testing.T) {
	for _, n := range slices.Concat(MasterFlags(), Environment()) {
		if n.Key == "" {
			continue
		}
		switch {
		case strings.HasSuffix(n.Name, "_sec"), strings.HasSuffix(n.Name, "_seconds"), n.Name == "client_ttl", n.Name == "MC_STORE_CLIENT_METRIC_INTERVAL",
			strings.HasSuffix(n.Name, "_SECONDS"), n.Name == "MC_SLICE_TIMEOUT", n.Name == "MC_TRANSFER_TIMEOUT", n.Name == "MC_HANDSHAKE_CONNECT_TIMEOUT":
			require.Equal(t, value.Second, n.Unit, n.Name)
		case strings.HasSuffix(n.Name, "_MS"), n.Type == Duration:
			require.Equal(t, value.Millisecond, n.Unit, n.Name)
		default:
			require.Equal(t, value.None, n.Unit, n.Name)
		}
	}
}
