package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// sharedPool is a pool whose store offers shared memory beside TCP, as every node does by default.
func sharedPool(t *testing.T) (*pool, func() *cluster.Proc) {
	p := startPool(t, 0, killable...)
	return p, func() *cluster.Proc {
		s := start(t, "store", "mooncake", "store", "--master_server_address", p.rpc, "--metadata_server", p.meta,
			"--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB")
		p.waitMounted(t, 1)
		return s
	}
}

// segments counts the segments of other processes that a process maps.
func segments(t *testing.T, p *cluster.Proc) int {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID()))
	require.NoError(t, err)
	return strings.Count(string(maps), "memfd:mooncake-segment")
}

// TestSharedMemoryBesideTCP moves objects over shared memory alone, over TCP alone, and over
// whatever both sides have. All three reach the same memory.
func TestSharedMemoryBesideTCP(t *testing.T) {
	p, store := sharedPool(t)
	store()
	value := strings.Repeat("a page of memory\n", 100_000)
	for _, way := range [][2]string{{"shm", "tcp"}, {"tcp", "shm"}, {"shm,tcp", "shm,tcp"}} {
		key := "written over " + way[0]
		r := p.client(t, value, "put", key, "--transports", way[0])
		require.Zero(t, r.Code, r.Stderr)
		assert.NotContains(t, r.Stderr, "WARN")
		r = p.client(t, "", "get", key, "--transports", way[1])
		require.Zero(t, r.Code, r.Stderr)
		assert.True(t, r.Stdout == value, "%s, read over %s", key, way[1])
		assert.NotContains(t, r.Stderr, "WARN")
	}
}

// TestSharedMemoryIsGivenBack uses the default transports. A long-running client maps the store's
// segment, and unmaps it when the store stops in order or is killed. It finds the next store by
// itself.
func TestSharedMemoryIsGivenBack(t *testing.T) {
	p, store := sharedPool(t)
	s := store()
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	c := start(t, "client", "mooncake_client", "-host", "127.0.0.1", "-port", fmt.Sprint(ports[0]), "-global_segment_size", "0",
		"-master_server_address="+p.rpc, "-metadata_server", p.meta)
	local := func(stdin string, args ...string) programs.Result {
		return program(t, "mooncake", nil, stdin, append(append([]string{"client"}, args...), "--local", "--port", fmt.Sprint(ports[0]))...)
	}
	require.NoError(t, cluster.Poll(c, 30*time.Second, func() error {
		if r := local("ready", "put", "ready"); r.Code != 0 {
			return fmt.Errorf("%s", r.Stderr)
		}
		return nil
	}))
	moves := func(key string) {
		t.Helper()
		require.NoError(t, cluster.Poll(c, 30*time.Second, func() error {
			if r := local(key, "put", key); r.Code != 0 {
				return fmt.Errorf("%s", r.Stderr)
			}
			if r := local("", "get", key); r.Stdout != key {
				return fmt.Errorf("got %q, %s", r.Stdout, r.Stderr)
			}
			return nil
		}))
		require.Equal(t, 1, segments(t, c), "the segment is mapped: no byte went over TCP")
	}
	back := func() {
		t.Helper()
		require.Eventually(t, func() bool { return segments(t, c) == 0 }, 30*time.Second, time.Millisecond)
	}
	moves("one")

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	require.NoError(t, s.Stop(ctx))
	back()
	assert.NotContains(t, s.Tail(), "must not be reused")

	s = store()
	moves("two")
	s.Kill()
	back()

	store()
	moves("three")
}
