package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBadInput checks that each mistake ends with the right exit code and a message that names what
// is wrong, why, and what to do.
func TestBadInput(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	port := fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	key := strings.Repeat("k", 100<<10)

	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"unknown verb", []string{"mastre"}, 2, []string{`unknown command "mastre"`, "master"}},
		{"unknown flag", []string{"master", "--rpc_prot", "1"}, 2, []string{"--rpc_prot", "unknown flag", "did you mean --rpc_port?"}},
		{"unknown flag in gflags syntax", []string{"master", "-evcition_ratio=0.1"}, 2, []string{"evcition_ratio", "did you mean --eviction_ratio?"}},
		{"unknown key", []string{"master", "--config", file("a.yaml", "master:\n  leese_ttl: 5s\n")}, 2, []string{"a.yaml:2", "leese_ttl", "lease_ttl"}},
		{"unknown key of a plugin", []string{"config", "check", file("b.yaml", "plugins:\n  alloc:\n    arena: {config: {arena_byte: 1}}\n")}, 2, []string{"arena_byte", "arena_bytes"}},
		{"malformed size", []string{"store", "--global_segment_size", "4gbb"}, 2, []string{"--global_segment_size", "4gbb", "4GB"}},
		{"malformed duration", []string{"master", "--lease_ttl", "5 parsecs"}, 2, []string{"--lease_ttl", "5 parsecs"}},
		{"ratio out of bounds", []string{"master", "--eviction_ratio", "1.5"}, 2, []string{"--eviction_ratio", "1.5"}},
		{"missing file", []string{"master", "--config", "/nonexistent/m.yaml"}, 2, []string{"/nonexistent/m.yaml", "does not exist"}},
		{"extension", []string{"master", "--config", file("m.toml", "")}, 2, []string{"m.toml", ".yaml"}},
		{"broken file", []string{"master", "--config", file("m.json", `{"master": `)}, 2, []string{"m.json"}},
		{"port in use", []string{"master", "--rpc_address", "127.0.0.1", "--metrics_host", "127.0.0.1", "--metrics_port", "0", "--rpc_port", port}, 1,
			[]string{"127.0.0.1:" + port, "address already in use", "--rpc_port"}},
		{"feature of later", []string{"master", "--memory_allocator", "cachelib"}, 2, []string{"--memory_allocator", "not supported yet"}},
		{"unreachable master", []string{"client", "exist", "k", "--master_server_address", "127.0.0.1:1", "--local_hostname", "127.0.0.1"}, 1, []string{"127.0.0.1:1", "RPC_FAIL", "mooncake master"}},
		{"malformed master address", []string{"client", "exist", "k", "--master_server_address", "nowhere"}, 2, []string{"nowhere", "host:port"}},
		{"segment larger than memory", []string{"store", "--global_segment_size", "900TB", "--local_hostname", "127.0.0.1"}, 2, []string{"memory", "TiB"}},
		{"empty key", []string{"client", "get", ""}, 2, []string{"key", "empty"}},
		{"long key", []string{"client", "get", key}, 2, []string{"1 to 65536 bytes"}},
		{"empty value", []string{"client", "put", "k", "--value", ""}, 2, []string{"empty", "at least one byte"}},
		{"unknown evictor", []string{"config", "check", file("c.yaml", "master: {evictor: lfu}\n")}, 2, []string{"lfu", "lru"}},
		{"unknown plugin mode", []string{"config", "check", file("d.yaml", "plugins: {evict: {lru: {mode: sideways}}}\n")}, 2, []string{"sideways", "inprocess"}},
		{"unknown kind", []string{"plugins", "list", "--kind", "evictor"}, 2, []string{"evictor", "evict"}},
		{"unknown output", []string{"plugins", "list", "-o", "xml"}, 2, []string{"xml", "json"}},
		{"demo without workers", []string{"demo", "--workers", "0"}, 2, []string{"0 workers"}},
		{"demo trace missing", []string{"demo", "--trace", "/nonexistent/t.jsonl"}, 1, []string{"/nonexistent/t.jsonl"}},
		{"demo trace broken", []string{"demo", "--trace", file("t.jsonl", "{\"hash_ids\": 1}\n")}, 2, []string{"line 1"}},
		{"unknown metadata service", []string{"store", "--metadata_server", "ftp://127.0.0.1:21"}, 2, []string{"ftp://127.0.0.1:21", "P2PHANDSHAKE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mooncake(t, c.args...)
			assert.Equal(t, c.code, r.Code, r.Stderr)
			for _, w := range c.want {
				assert.Contains(t, r.Stderr, w)
			}
			assert.NotContains(t, r.Stderr, "panic:")
			assert.NotContains(t, r.Stderr, "goroutine ")
			assert.Less(t, len(r.Stderr), 4096, "an error is read by a person")
		})
	}
}

// TestGarbageOnEveryPort sends garbage to every port of a pool while a client works.
func TestGarbageOnEveryPort(t *testing.T) {
	p := startPool(t, 1)
	ports := p.ports(t)
	require.GreaterOrEqual(t, len(ports), 5, "rpc, admin, metadata, handshake and data")
	noise := make([]byte, 64<<10)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	for _, port := range ports {
		for _, bytes := range [][]byte{noise, []byte("GET / HTTP/1.1\r\n\r\n"), {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 4096), {}} {
			throw(t, port, bytes)
		}
	}
	p.mustPutGet(t, "after-the-noise")
}

func throw(t *testing.T, port int, data []byte) {
	t.Helper()
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(500*time.Millisecond)))
	_, _ = c.Write(data)
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

// TestOversizedKeyOverHTTP checks that the admin port survives what a browser can send.
func TestOversizedKeyOverHTTP(t *testing.T) {
	p := startPool(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/query_key?key="+strings.Repeat("k", 512<<10), bytes.NewReader(nil))
	require.NoError(t, err)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		assert.GreaterOrEqual(t, resp.StatusCode, 400)
	}
	p.mustPutGet(t, "still-there")
}
