package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// TestDaemonsComeBeforeTheirMaster starts every daemon before its master. Each says what it waits
// for, ends at once with a signal, and works when the master and its metadata service start.
func TestDaemonsComeBeforeTheirMaster(t *testing.T) {
	p := startPool(t, 0)
	p.master.Kill()
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		program string
		args    []string
	}{
		"store":        {"mooncake", []string{"store", "--global_segment_size", "32MB", "--local_hostname", "127.0.0.1"}},
		"REST service": {"mooncake", []string{"store", "--port", fmt.Sprint(ports[0]), "--global_segment_size", "32MB", "--local_hostname", "127.0.0.1"}},
		"client":       {"mooncake_client", []string{"-host", "127.0.0.1", "-port", fmt.Sprint(ports[1]), "-global_segment_size", "32MB", "-max_wait_time", "80"}},
	} {
		args := append(c.args, "--master_server_address", p.rpc, "--metadata_server", p.meta)
		waiting := func(d *cluster.Proc) {
			says(t, d, "waiting for the master")
			assert.Contains(t, d.Tail(), p.rpc, name)
			assert.Contains(t, d.Tail(), "refused", name)
		}
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			d := start(t, name, c.program, args...)
			waiting(d)
			end(t, d, sig)
			assert.Equal(t, 1, strings.Count(d.Tail(), "waiting for the master"), "%s does not wait on after a signal", name)
		}
		d := start(t, name, c.program, args...)
		waiting(d)
		p.startMaster(t)
		says(t, d, "memory is mounted")
		says(t, d, "the wait is over")
		end(t, d, syscall.SIGTERM)
		p.master.Kill()
	}

	r := program(t, "mooncake", nil, "", "client", "exist", "k", "--master_server_address", p.rpc)
	assert.Equal(t, 1, r.Code)
	assert.NotContains(t, r.Stderr, "waiting", "a verb does not wait")
	r = program(t, "mooncake", nil, "", "client", "exist", "k", "--master_server_address", p.rpc, "--max_wait_time", "1")
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "waiting for the master")
}

// TestAStoreSaysThatItCountsNoWrites: its transport tcp runs in a process of its own.
func TestAStoreSaysThatItCountsNoWrites(t *testing.T) {
	p := startPool(t, 0)
	conf := filepath.Join(t.TempDir(), "store.yaml")
	require.NoError(t, os.WriteFile(conf, []byte("plugins: {dirs: ["+bin+"], transport: {tcp: {mode: subprocess}}}\n"), 0o600))
	for _, args := range [][]string{nil, {"--config", conf}} {
		d := start(t, "store", "mooncake", append([]string{"store", "--global_segment_size", "32MB", "--local_hostname", "127.0.0.1",
			"--master_server_address", p.rpc, "--metadata_server", p.meta}, args...)...)
		if args != nil {
			says(t, d, "cannot count the bytes that peers write")
		}
		says(t, d, "guarding_transports") // It ends the line after which the other would stand.
		end(t, d, syscall.SIGTERM)
		require.Equal(t, args != nil, strings.Contains(d.Tail(), "cannot count the bytes that peers write"))
	}
}
