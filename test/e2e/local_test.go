package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestSharedClient puts and gets from a process of this host through mooncake_client, whose
// transports work on the memory that the process shares. Each side survives kill -9 of the other
// and leaves nothing behind when it ends.
func TestSharedClient(t *testing.T) {
	p := startPool(t, 1)
	ports, err := cluster.FreePorts(1)
	require.NoError(t, err)
	port := ports[0]
	serve := func() *cluster.Proc {
		return start(t, "client", "mooncake_client", "-host", "127.0.0.1", "-port", fmt.Sprint(port), "-global_segment_size", "0",
			"-master_server_address="+p.rpc, "-metadata_server", p.meta)
	}
	attached := func(c *local.Client) func() bool {
		return func() bool { _, err := c.Ready(t.Context()); return err == nil }
	}
	proc := serve()
	a := &local.Allocator{}
	cfg := local.DefaultConfig(local.SocketOfPort(port))
	cfg.Allocator, cfg.OutageWait = a, 100*time.Millisecond
	var c *local.Client
	require.NoError(t, cluster.Poll(proc, 30*time.Second, func() error { c, err = local.Attach(t.Context(), cfg); return err }))
	defer func() { assert.NoError(t, c.Close(context.Background())) }()

	const size = 4 << 20
	mem, err := a.Alloc(size)
	require.NoError(t, err)
	require.NoError(t, c.RegisterBuffer(t.Context(), mem, ""))
	page := bytes.Repeat([]byte("page of memory.\n"), size/16)
	copy(mem, page)
	one := model.DefaultReplicateConfig()
	before := c.Traffic()
	require.NoError(t, c.Put(t.Context(), "shared/1", mem, one))
	clear(mem)
	n, err := c.GetInto(t.Context(), "shared/1", mem)
	require.NoError(t, err)
	require.Equal(t, size, n)
	require.True(t, bytes.Equal(page, mem))
	require.Less(t, c.Traffic()-before, uint64(4096), "no byte of the object went through a socket")
	require.True(t, listensOn(t, proc, port))

	// The verbs, beside a client of its own: the same objects.
	r := program(t, "mooncake", nil, "through the other process", "client", "put", "greeting", "--local", "--port", fmt.Sprint(port))
	require.Zero(t, r.Code, r.Stderr)
	r = program(t, "mooncake", nil, "", "client", "get", "greeting", "--local="+local.SocketOfPort(port))
	assert.Equal(t, "through the other process", r.Stdout, r.Stderr)
	r = p.client(t, "", "ls")
	assert.Equal(t, "greeting\nshared/1\n", r.Stdout)
	r = program(t, "mooncake", nil, "", "client", "exist", "--local", "nothing", "--port", fmt.Sprint(port))
	assert.Equal(t, 3, r.Code, r.Stderr)

	proc.Kill()
	require.Eventually(t, func() bool { return !c.Attached() }, 30*time.Second, time.Millisecond)
	_, err = c.GetInto(t.Context(), "shared/1", mem)
	require.Equal(t, errs.RPCFail, errs.CodeOf(err))
	require.ErrorContains(t, err, "mooncake client serve")
	require.True(t, bytes.Equal(page, mem), "the memory is this process's")
	r = program(t, "mooncake", nil, "", "client", "get", "greeting", "--local", "--port", fmt.Sprint(port))
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "attach")

	proc = serve()
	require.Eventually(t, attached(c), 30*time.Second, 10*time.Millisecond)
	clear(mem)
	_, err = c.GetInto(t.Context(), "shared/1", mem)
	require.NoError(t, err, "the pool kept it")
	require.True(t, bytes.Equal(page, mem))
	require.Equal(t, 2, mapped(t, proc.PID()), "the page and the local buffer")
	require.NoError(t, c.UnregisterBuffer(t.Context(), mem))
	require.NoError(t, a.Free(mem))
	require.NoError(t, c.Close(t.Context()))
	require.Eventually(t, func() bool { return mapped(t, proc.PID()) == 0 }, 30*time.Second, 10*time.Millisecond)

	r = program(t, "mooncake_client", nil, "", "-host", "127.0.0.1", "-port", fmt.Sprint(port), "-master_server_address="+p.rpc, "-metadata_server", p.meta)
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "port")
}

// mapped counts the mappings of memory that other processes share.
func mapped(t *testing.T, pid int) int {
	t.Helper()
	maps, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "maps"))
	require.NoError(t, err)
	return strings.Count(string(maps), "memfd:mooncake-shared")
}

func listensOn(t *testing.T, p *cluster.Proc, port int) bool {
	t.Helper()
	for _, n := range listening(t, p.PID()) {
		if n == port {
			return true
		}
	}
	return false
}
