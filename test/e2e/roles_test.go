package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

func TestClientVerbs(t *testing.T) {
	p := startPool(t, 2)
	p.mustPutGet(t, "a/1")
	p.mustPutGet(t, "a/2")
	p.mustPutGet(t, "b/1")
	require.Equal(t, 0, p.client(t, "", "put", "a/1", "--value", "another").Code, "a put of an existing object is a success")

	r := p.client(t, "", "exist", "a/1", "nope")
	assert.Equal(t, 3, r.Code)
	assert.Equal(t, "a/1\ttrue\nnope\tfalse\n", r.Stdout)
	assert.Equal(t, []string{"a/1", "a/2"}, decode[[]string](t, p.client(t, "", "ls", "^a/", "-o", "json").Stdout))

	r = p.client(t, "", "get", "nope")
	assert.Equal(t, 3, r.Code)
	assert.Contains(t, r.Stderr, "OBJECT_NOT_FOUND")
	assert.Empty(t, r.Stdout)

	assert.Equal(t, 0, p.client(t, "", "remove", "a/1", "--force").Code)
	assert.Equal(t, 3, p.client(t, "", "get", "a/1").Code)
	r = p.client(t, "", "remove", "--all", "--force")
	assert.Equal(t, "removed 2\n", r.Stdout, r.Stderr)
	assert.Empty(t, p.client(t, "", "ls").Stdout)
}

func TestSigtermDrainsEveryRole(t *testing.T) {
	p := startPool(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	require.NoError(t, p.stores[0].Signal(syscall.SIGTERM))
	code, err := p.stores[0].Wait(ctx)
	require.NoError(t, err)
	assert.Zero(t, code)
	p.waitMounted(t, 0) // It unmounted itself, so the master needs no timeout.
	require.NoError(t, p.master.Signal(syscall.SIGTERM))
	code, err = p.master.Wait(ctx)
	require.NoError(t, err)
	assert.Zero(t, code)
}

func TestKilledMasterIsJoinedAgain(t *testing.T) {
	p := startPool(t, 2)
	p.mustPutGet(t, "before")
	p.master.Kill()
	p.startMaster(t)
	p.waitMounted(t, 2)
	got := p.client(t, "", "get", "before")
	assert.Equal(t, 0, got.Code, "the nodes still have the object: %s", got.Stderr)
	p.mustPutGet(t, "after")
}

func TestKilledStoreIsDropped(t *testing.T) {
	p := startPool(t, 2, killable...)
	p.stores[0].Kill()
	p.waitMounted(t, 1)
	p.mustPutGet(t, "after")
}

// TestUpstreamNames runs a pool under the names and flags that operators have in scripts.
func TestUpstreamNames(t *testing.T) {
	ports, err := cluster.FreePorts(5)
	require.NoError(t, err)
	text := func(i int) string { b, _ := json.Marshal(ports[i]); return string(b) }
	meta := "http://127.0.0.1:" + text(2) + "/metadata"
	http := start(t, "metadata", "mooncake_http_metadata_server", "--host", "127.0.0.1", "--port", text(2))
	p := &pool{rpc: "127.0.0.1:" + text(0), admin: "127.0.0.1:" + text(1), meta: meta}
	p.master = start(t, "master", "mooncake_master", "-rpc_address=127.0.0.1", "-rpc_port", text(0), "-metrics_port="+text(1),
		"-metrics_host", "127.0.0.1", "-default_kv_lease_ttl", "200", "-noenable_metric_reporting")
	require.NoError(t, cluster.Poll(p.master, 30*time.Second, func() error { _, err := p.get(t, "/health"); return err }))
	p.stores = append(p.stores, start(t, "client", "mooncake_client", "-host", "127.0.0.1", "-port", text(4), "-global_segment_size", "32 MB",
		"-master_server_address="+p.rpc, "-metadata_server", meta, "--protocol=tcp",
		"-enable_http_server", "-http_port", text(3)))
	p.waitMounted(t, 1)
	node := &pool{admin: "127.0.0.1:" + text(3)}
	var health string
	// The master shows the segment a moment before the node has the answer to its mount.
	require.NoError(t, cluster.Poll(p.stores[0], 30*time.Second, func() (err error) { health, err = node.get(t, "/health"); return err }))
	assert.Equal(t, `{"status":"healthy","code":0}`, health)
	metrics, err := node.get(t, "/metrics")
	require.NoError(t, err)
	assert.Contains(t, metrics, "mooncake_node_mounted 1")
	p.mustPutGet(t, "under-the-old-names")
	says(t, p.master, "Master service started on port "+text(0))
	assert.NotContains(t, http.Tail(), "level=ERROR")

	r := program(t, "mooncake_master", nil, "", "--version")
	assert.Zero(t, r.Code)
	assert.Contains(t, r.Stdout, "mooncake ")
}

func TestPeerToPeerMetadata(t *testing.T) {
	p := startPool(t, 0)
	p.meta = "P2PHANDSHAKE"
	p.stores = append(p.stores, start(t, "store", "mooncake", "store", "--master_server_address", p.rpc,
		"--metadata_server", p.meta, "--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB"))
	p.waitMounted(t, 1)
	p.mustPutGet(t, "peer-to-peer")
}

func TestKnownButUnsupportedIsSaidOnce(t *testing.T) {
	r := program(t, "mooncake", []string{"MC_FRAGMENT_RATIO=3", "MOONCAKE_MASTR=x"}, "", "config", "show", "--role", "client")
	assert.Equal(t, 0, r.Code, r.Stderr)
	assert.Equal(t, 1, strings.Count(r.Stderr, "MC_FRAGMENT_RATIO"), r.Stderr)
	assert.Contains(t, r.Stderr, "MOONCAKE_MASTER")
}

func TestPluginsList(t *testing.T) {
	type entry struct {
		Kind, Name, Version, Home, State, Summary, Reason string
		API                                               []uint
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	copyFile(t, filepath.Join(bin, "mooncake-plugin-evict-lru"), filepath.Join(dir, "mooncake-plugin-evict-mine"), 0o755)
	copyFile(t, filepath.Join(bin, "mooncake-plugin-evict-lru"), filepath.Join(dir, "mooncake-plugin-evict-lru"), 0o755)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mooncake-plugin-alloc-empty"), []byte("#!/bin/sh\ntouch "+dir+"/was-run\n"), 0o755))
	r := mooncake(t, "plugins", "list", "-o", "json", "--plugin-dir", dir)
	require.Equal(t, 0, r.Code, r.Stderr)
	byHome := map[string]entry{}
	builtin := map[string]entry{}
	for _, e := range decode[[]entry](t, r.Stdout) {
		byHome[filepath.Base(e.Home)] = e
		if e.Home == "built-in" {
			builtin[e.Kind+"/"+e.Name] = e
		}
	}
	for _, id := range []string{"transport/tcp", "alloc/arena", "evict/lru"} {
		// Another process of this machine may use it, such as the master of another test.
		assert.Contains(t, []string{"available", "ok"}, builtin[id].State, id)
		assert.NotEmpty(t, builtin[id].Summary)
		assert.Equal(t, []uint{1}, builtin[id].API)
	}
	found := byHome["mooncake-plugin-evict-lru"]
	assert.Equal(t, "available", found.State)
	assert.Equal(t, builtin["evict/lru"].Summary, found.Summary)
	assert.Equal(t, "failed", byHome["mooncake-plugin-evict-mine"].State, "the manifest says lru, the name says mine")
	assert.Equal(t, "failed", byHome["mooncake-plugin-alloc-empty"].State)
	assert.NotEmpty(t, byHome["mooncake-plugin-alloc-empty"].Reason)
	assert.NoFileExists(t, filepath.Join(dir, "was-run"))

	r = mooncake(t, "plugins", "list", "--kind", "evict", "--plugin-dir", dir)
	assert.NotContains(t, r.Stdout, "transport")
	assert.Contains(t, r.Stdout, filepath.Join(dir, "mooncake-plugin-evict-lru"))
	assert.Contains(t, mooncake(t, "plugins", "list", "-o", "yaml").Stdout, "name: arena")
}

// TestCrashingPlugin checks that the error names a plugin that ends at its start, with its last
// lines.
func TestCrashingPlugin(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	manifest := `{"mooncake_plugin_manifest":1,"kind":"evict","name":"crashy","version":"1.0.0","api":[%s],"summary":"Dies","stability":"experimental"}`
	write := func(name, api string) {
		text := "#!/bin/sh\necho 'no license found' >&2\nexit 9\n" + strings.Replace(strings.Replace(manifest, "%s", api, 1), "crashy", name, 1) + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mooncake-plugin-evict-"+name), []byte(text), 0o755))
	}
	write("crashy", "1")
	write("futuristic", "99")
	run := func(name string) programs.Result {
		conf := filepath.Join(t.TempDir(), "m.yaml")
		require.NoError(t, os.WriteFile(conf, []byte("master: {evictor: "+name+", rpc_address: 127.0.0.1, rpc_port: 0, metrics_host: 127.0.0.1, metrics_port: 0}\nplugins: {dirs: ["+dir+"]}\n"), 0o600))
		return mooncake(t, "master", "--config", conf)
	}
	r := run("crashy")
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "evict/crashy")
	assert.Contains(t, r.Stderr, "no license found")
	r = run("futuristic")
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "99")
	assert.Contains(t, r.Stderr, "no common contract version")
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, mode))
}
