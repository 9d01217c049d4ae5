package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// TestFatalAtTheStart lists the settings with which a master does not start. Under upstream's name
// the program ends with exit code 1 and a message that names the setting.
func TestFatalAtTheStart(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	port := fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	free := []string{"-rpc_address=127.0.0.1", "-metrics_host=127.0.0.1", "-metrics_port=0", "--set", "master.rpc_port=0"}

	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown flag", []string{"-evictoin_ratio=0.1"}, []string{"--evictoin_ratio", "unknown flag", "did you mean --eviction_ratio?"}},
		{"extension", []string{"-config_path", file("m.conf", "rpc_port: 1\n")}, []string{"m.conf", ".yaml, .yml or .json"}},
		{"array in the file", []string{"-config_path", file("m.yaml", "cluster_id: a\netcd_endpoints: [a, b]\n")}, []string{"m.yaml:2", "etcd_endpoints", "not a list"}},
		{"unknown key", []string{"-config_path", file("n.yaml", "client_ttl_sec: 5\n")}, []string{"n.yaml:1", "client_ttl_sec", "unknown key"}},
		{"interface", []string{"-rpc_interface=nosuch0"}, []string{"master.rpc_interface", "nosuch0", "ip -brief addr"}},
		{"eviction ratio", []string{"-eviction_ratio=1.5"}, []string{"--eviction_ratio", "1.5", "from 0 to 1"}},
		{"watermark of the file", []string{"-config_path", file("o.yaml", "eviction_high_watermark_ratio: -1\n")}, []string{"o.yaml:1", "from 0 to 1"}},
		{"allocator", []string{"-memory_allocator=malloc"}, []string{"--memory_allocator", "offset, cachelib"}},
		{"cachelib", []string{"-memory_allocator=cachelib"}, []string{"--memory_allocator", "not supported yet"}},
		{"release before discard", []string{"-put_start_release_timeout_sec=30"}, []string{"put_start_release_timeout_sec", "longer than", "30s"}},
		{"soft pins", []string{"-default_kv_soft_pin_ttl=25h"}, []string{"default_kv_soft_pin_ttl", "at most master.max_soft_pin_ttl (24h)"}},
		{"cluster", []string{"-cluster_id=a/b"}, []string{"--cluster_id", "letters, digits"}},
		{"quotas in etcd", []string{"-enable_multi_tenants", "-tenant_quota_connector_type=etcd"}, []string{"--tenant_quota_connector_type", "master.tenant_quota_connector_uri"}},
		{"quotas in Redis", []string{"-tenant_quota_connector_type=redis"}, []string{"--tenant_quota_connector_type", "file, etcd"}},
		{"an election without etcd", []string{"-enable_ha"}, []string{"--enable_ha", "master.ha_backend_connstring"}},
		{"KV events without an endpoint", []string{"-enable_kv_events"}, []string{"--enable_kv_events", "master.kv_events_bind_endpoint", "master.kv_events_backend_id"}},
		{"KV events over UDP", []string{"-enable_kv_events", "-kv_events_bind_endpoint=udp://*:5557", "-kv_events_backend_id=pool"}, []string{"kv_events_bind_endpoint", "udp://", "tcp://host:port"}},
		{"port of KV events in use", append(free[:len(free):len(free)], "-enable_kv_events", "-kv_events_backend_id=pool", "-kv_events_bind_endpoint=tcp://127.0.0.1:"+port),
			[]string{"127.0.0.1:" + port, "address already in use", "--kv_events_bind_endpoint"}},
		{"enforced replication", []string{"-dynamic_replication_mode=enforce"}, []string{"--dynamic_replication_mode", "dynamic replication"}},
		{"log directory", append([]string{"-log_dir", "/nonexistent/logs"}, free...), []string{"/nonexistent/logs", "must exist and be writable"}},
		{"RPC port in use", append(free[:3:3], "-rpc_port", port), []string{"127.0.0.1:" + port, "address already in use", "--rpc_port"}},
		{"admin port in use", append(free[:len(free):len(free)], "-metrics_port", port), []string{"127.0.0.1:" + port, "address already in use", "--metrics_port"}},
		{"metadata port in use", append(free[:len(free):len(free)], "-enable_http_metadata_server", "-http_metadata_server_host=127.0.0.1", "-http_metadata_server_port", port),
			[]string{"127.0.0.1:" + port, "address already in use", "--http_metadata_server_port"}},
		{"address of another machine", append(free[:len(free):len(free)], "-rpc_address=203.0.113.1"), []string{"203.0.113.1", "does not have the address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := program(t, "mooncake_master", nil, "", c.args...)
			assert.Equal(t, 1, r.Code, r.Stderr)
			for _, w := range c.want {
				assert.Contains(t, r.Stderr, w)
			}
			assert.NotContains(t, r.Stderr, "panic:")
		})
	}
}

// startMaster runs a master under upstream's name on free ports of a host.
func startMaster(t *testing.T, host string, args ...string) *pool {
	t.Helper()
	ports, err := cluster.FreePorts(3)
	require.NoError(t, err)
	at := func(i int) string { return net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(ports[i])) }
	p := &pool{rpc: at(0), admin: at(1), meta: "http://" + at(2) + "/metadata"}
	p.master = start(t, "master", "mooncake_master", append([]string{"-rpc_address", host, "-rpc_port", fmt.Sprint(ports[0]), "-metrics_host", host,
		"-metrics_port", fmt.Sprint(ports[1]), "-enable_http_metadata_server", "-http_metadata_server_host", host, "-http_metadata_server_port", fmt.Sprint(ports[2])}, args...)...)
	require.NoError(t, cluster.Poll(p.master, 30*time.Second, func() error { _, err := p.get(t, "/health"); return err }))
	return p
}

func end(t *testing.T, p *cluster.Proc, sig syscall.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	require.NoError(t, p.Signal(sig))
	code, err := p.Wait(ctx)
	require.NoError(t, err)
	assert.Zero(t, code, p.Tail())
}

// TestStartLine: one line with every setting under upstream's names, in the file that
// --log_dir asks for, and a graceful end on both signals.
func TestStartLine(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		conf := filepath.Join(dir, "m.yaml")
		require.NoError(t, os.WriteFile(conf, []byte("default_kv_lease_ttl: 5000\nclient_live_ttl_sec: 60\neviction_ratio: 0.1\n"), 0o600))
		// A flag that repeats a default wins over the file.
		p := startMaster(t, "127.0.0.1", "-log_dir", dir, "-config_path="+conf, "-eviction_ratio=0.05", "-nologtostderr")
		end(t, p.master, sig)
		data, err := os.ReadFile(filepath.Join(dir, "mooncake_master.INFO"))
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(p.rpc)
		require.NoError(t, err)
		text := string(data)
		require.Equal(t, 1, strings.Count(text, "Master service started on port "+port+", max_threads="), text)
		for _, want := range []string{"rpc_port=" + port, "rpc_address=127.0.0.1", "default_kv_lease_ttl=5000", "client_ttl=60", "eviction_ratio=0.05", "default_kv_soft_pin_ttl=1800000",
			"allocation_strategy=random", "enable_ha=false", "put_start_discard_timeout_sec=30", "enable_http_metadata_server=true", "stripe_size=64MiB"} {
			assert.Contains(t, text, ", "+want+",")
		}
		assert.NotContains(t, p.master.Tail(), "Master service started", "with a log directory standard error is for errors")
	}
}

// TestIPv6 runs a pool over IPv6 only.
func TestIPv6(t *testing.T) {
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	} else {
		require.NoError(t, ln.Close())
	}
	p := startMaster(t, "[::1]")
	p.stores = append(p.stores, start(t, "store", "mooncake", "store", "--master_server_address", p.rpc, "--metadata_server", p.meta,
		"--local_hostname", "::1", "--global_segment_size", "32MiB"))
	p.waitMounted(t, 1)
	segments, err := p.get(t, "/get_all_segments")
	require.NoError(t, err)
	assert.Regexp(t, `^\[::1\]:\d+\s*$`, segments)
	at := []string{"--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "::1"}
	r := program(t, "mooncake", nil, "", append([]string{"client", "put", "k", "--value", "over-ipv6"}, at...)...)
	require.Zero(t, r.Code, r.Stderr)
	r = program(t, "mooncake", nil, "", append([]string{"client", "get", "k"}, at...)...)
	assert.Equal(t, "over-ipv6", strings.TrimSuffix(r.Stdout, "\n"), r.Stderr)
}

// TestEveryAddress checks that :: accepts IPv4 as well, and that an interface decides the address.
func TestEveryAddress(t *testing.T) {
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	} else {
		require.NoError(t, ln.Close())
	}
	p := startMaster(t, "::")
	_, port, err := net.SplitHostPort(p.rpc)
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", "::1"} {
		r := program(t, "mooncake", nil, "", "client", "exist", "k", "--master_server_address", net.JoinHostPort(host, port), "--local_hostname", "127.0.0.1")
		assert.Equal(t, 3, r.Code, r.Stderr)
	}
	p = startMaster(t, "127.0.0.1", "-rpc_address=203.0.113.1", "-rpc_interface=lo")
	says(t, p.master, ", rpc_address=127.0.0.1, rpc_interface=lo, ")
	r := program(t, "mooncake", nil, "", "client", "exist", "k", "--master_server_address", p.rpc, "--local_hostname", "127.0.0.1")
	assert.Equal(t, 3, r.Code, r.Stderr)
}

// TestIdleConnections checks that the master closes a connection without calls after
// rpc_conn_timeout_seconds, and that the client connects again with its next call.
func TestIdleConnections(t *testing.T) {
	p := startMaster(t, "127.0.0.1", "-rpc_conn_timeout_seconds=1")
	conn, err := grpc.NewClient(p.rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for range 2 {
		for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
			if state == connectivity.Idle { // Even if it was closed before a poll saw it open.
				conn.Connect()
			}
			require.True(t, conn.WaitForStateChange(ctx, state), "the connection stays %s", state)
		}
		require.True(t, conn.WaitForStateChange(ctx, connectivity.Ready), "the connection stays open")
	}
}
