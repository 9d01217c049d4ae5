package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// The line for the defaults, a setting a line in the golden file.
func TestStartLine(t *testing.T) {
	const path = "testdata/startline.txt"
	line := StartLine(mustLoad(t, RoleMaster, nil, nil, "").Config, 8)
	require.NotContains(t, line, "\n")
	have := strings.ReplaceAll(line, ", ", ",\n") + "\n"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(have), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), have, "run: go test ./core/config -run TestStartLine -update")
	require.True(t, strings.HasPrefix(line, "Master service started on port 50051, max_threads=8, "))
	settings := regexp.MustCompile(`^[a-z_]+=[^,=]*$`)
	for _, s := range strings.Split(line, ", ")[1:] {
		require.Regexp(t, settings, s)
	}
}

// What the line says can be given back as flags, and gives the same line.
func TestStartLineReadsBack(t *testing.T) {
	l := mustLoad(t, RoleMaster, []string{"-rpc_port=1234", "-default_kv_lease_ttl=1500us", "-client_ttl=90", "-metrics_host=::", "-eviction_ratio=0.25", "-rpc_conn_timeout_seconds=7",
		"-max_kv_soft_pin_ttl=1h", "-norpc_enable_tcp_no_delay", "-allocation_strategy=local_first", "-stripe_size=1GB"}, nil, "")
	line := StartLine(l.Config, 1)
	for _, want := range []string{"started on port 1234, ", ", rpc_port=1234, ", ", default_kv_lease_ttl=1.5ms, ", ", client_ttl=90, ", ", metrics_host=::, ", ", eviction_ratio=0.25, ",
		", rpc_conn_timeout_seconds=7, ", ", max_kv_soft_pin_ttl=3600000, ", ", rpc_enable_tcp_no_delay=false, ", ", allocation_strategy=local_first, ", ", stripe_size=1GiB",
		", enable_ha=false, ", ", memory_allocator=offset, ", ", dynamic_replication_mode=off, "} {
		require.Contains(t, line, want)
	}
	var args []string
	for _, s := range strings.Split(line, ", ")[2:] {
		args = append(args, "--"+s)
	}
	require.Equal(t, line, StartLine(mustLoad(t, RoleMaster, args, nil, "").Config, 1))
}

func TestStartLineNamesEverySetting(t *testing.T) {
	line := StartLine(mustLoad(t, RoleMaster, nil, nil, "").Config, 1)
	for _, f := range schema() {
		if f.section != "master" {
			continue
		}
		name := f.name
		for _, n := range upstream.MasterFlags() {
			if n.Key == f.key && !n.Deprecated {
				name = n.Name
			}
		}
		require.Equal(t, 1, strings.Count(line, ", "+name+"="), name)
	}
}
