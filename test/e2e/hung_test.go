package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// TestHungPluginIsReplaced: the process of the allocator stops without ending. The master
// stops waiting for it, replaces it, and finds everything as it was.
func TestHungPluginIsReplaced(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "master.yaml")
	require.NoError(t, os.WriteFile(conf, []byte("plugins: {dirs: ["+bin+"], alloc: {arena: {mode: subprocess}}}\n"), 0o600))
	p := startPool(t, 1, "--config", conf)
	p.mustPutGet(t, "before")
	pid := childNamed(t, p.master.PID(), "mooncake-plugin-alloc-arena")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.NoError(t, cluster.Poll(p.master, time.Minute, func() error {
		if r := p.client(t, "x", "put", "after"); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	}))
	require.NotEqual(t, pid, childNamed(t, p.master.PID(), "mooncake-plugin-alloc-arena"))
	r := p.client(t, "", "get", "before")
	require.Equal(t, 0, r.code, r.stderr)
}

// childNamed finds the child of a process that runs a program of this name.
func childNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, status := range all {
		text, err := os.ReadFile(status)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("PPid:\t%d\n", parent)) {
			continue
		}
		dir := filepath.Dir(status)
		if exe, err := os.Readlink(filepath.Join(dir, "exe")); err != nil || filepath.Base(exe) != name {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		require.NoError(t, err)
		return pid
	}
	t.Fatalf("process %d has no child that runs %s", parent, name)
	return 0
}
