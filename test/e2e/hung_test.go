package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestHungPluginIsReplaced stops the process of the allocator without ending it. The master gives
// up waiting, replaces the process, and replays its state.
func TestHungPluginIsReplaced(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "master.yaml")
	require.NoError(t, os.WriteFile(conf, []byte("plugins: {dirs: ["+bin+"], alloc: {arena: {mode: subprocess}}}\n"), 0o600))
	p := startPool(t, 1, "--config", conf)
	p.mustPutGet(t, "before")
	pid := pluginOf(t, p.master.PID(), "mooncake-plugin-alloc-arena")
	programs.Freeze(t, pid)
	require.NoError(t, cluster.Poll(p.master, time.Minute, func() error {
		if r := p.client(t, "x", "put", "after"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	}))
	require.NotEqual(t, pid, pluginOf(t, p.master.PID(), "mooncake-plugin-alloc-arena"))
	r := p.client(t, "", "get", "before")
	require.Equal(t, 0, r.Code, r.Stderr)
}

// TestStoppedMasterForgetsNothing stops the master for three times as long as it waits for a silent
// client. When it goes on, no client has expired: nobody could have pinged a process that did not run.
func TestStoppedMasterForgetsNothing(t *testing.T) {
	const ttl = 3 * time.Second
	p := startPool(t, 2, "--client_ttl", ttl.String())
	for i := range 3 {
		p.mustPutGet(t, fmt.Sprint("before-", i))
	}
	programs.Freeze(t, p.master.PID())
	time.Sleep(3 * ttl)
	require.NoError(t, p.master.Signal(syscall.SIGCONT))
	says(t, p.master, "this process did not run for a while")
	time.Sleep(ttl) // Whoever was to expire has by now.
	for i := range 3 {
		key := fmt.Sprint("before-", i)
		r := p.client(t, "", "get", key)
		require.Equal(t, 0, r.Code, r.Stderr)
		require.Equal(t, strings.Repeat(key+"\n", 1000), r.Stdout)
	}
	require.NotContains(t, p.master.Tail(), "client expired")
	metrics, err := p.get(t, "/metrics")
	require.NoError(t, err)
	require.NotContains(t, metrics, "\nmaster_paused_seconds_total 0\n")
}

// pluginOf finds the process below another one that runs a program of this name.
func pluginOf(t *testing.T, parent int, name string) int {
	t.Helper()
	pid, err := cluster.Descendant(parent, name)
	require.NoError(t, err)
	return pid
}
