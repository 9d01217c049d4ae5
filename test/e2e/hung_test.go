package e2e

import (
	"errors"
	"os"
	"path/filepath"
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

// pluginOf finds the process below another one that runs a program of this name.
func pluginOf(t *testing.T, parent int, name string) int {
	t.Helper()
	pid, err := cluster.Descendant(parent, name)
	require.NoError(t, err)
	return pid
}
