package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// tiered starts a store of 32 MiB that has a storage tier in a folder.
func (p *pool) tiered(t *testing.T, folder string) *cluster.Proc {
	t.Helper()
	return p.keptStore(t, "--global_segment_size", "32MiB", "--keep", "off", "--enable_offload", "--ssd_offload_path", folder,
		"--offload_size_limit", "256MiB", "--offload_buffer_size", "32MiB")
}

// tierValue is the value of a key in these tests, of 1 MiB.
func tierValue(i int) string { return strings.Repeat(fmt.Sprintf("value %08d\n", i), 1<<20/15) }

// allThere waits until the pool has every key, with its value.
func (p *pool) allThere(t *testing.T, from, n int) {
	t.Helper()
	for i := from; i < n; i++ {
		k, want := fmt.Sprint("tiered", i), tierValue(i)
		require.Eventually(t, func() bool {
			r := p.client(t, "", "get", k)
			require.False(t, r.Code == 0 && r.Stdout != want, "%s has other bytes", k)
			return r.Code == 0
		}, 30*time.Second, 20*time.Millisecond, k)
	}
}

// TestStorageTier: a pool has more than its memory holds, and has it after kill -9 of the store, of the master, and of both.
func TestStorageTier(t *testing.T) {
	const n = 64
	p, folder := startPool(t, 0, "--enable_offload"), t.TempDir()
	s := p.tiered(t, folder)
	p.waitMounted(t, 1)
	for i := range n {
		r := p.client(t, tierValue(i), "put", fmt.Sprint("tiered", i))
		require.Zero(t, r.Code, r.Stderr)
	}
	p.allThere(t, 0, n)
	require.Zero(t, p.client(t, "", "remove", "--force", "tiered0").Code)

	s.Kill()
	s = p.tiered(t, folder)
	p.allThere(t, 1, n)
	require.NotZero(t, p.client(t, "", "exist", "tiered0").Code, "a removed object has returned")

	p.master.Kill()
	p.startMaster(t)
	p.allThere(t, 1, n)

	s.Kill()
	p.master.Kill()
	p.startMaster(t)
	s = p.tiered(t, folder)
	p.allThere(t, 1, n)
	require.NotZero(t, p.client(t, "", "exist", "tiered0").Code, "a removed object has returned")
	require.NoError(t, s.Stop(t.Context()))
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 2, "the folder has the tier and its ledger")
}

// TestSharedFolder: stores that were not asked for storage tiers make some in the folder that the master names, and use them
// again, whichever of them takes which.
func TestSharedFolder(t *testing.T) {
	const n = 64
	folder := t.TempDir()
	p := startPool(t, 0, "--root_fs_dir", folder, "--quota_bytes", fmt.Sprint(128<<20))
	start := func() [2]*cluster.Proc {
		var all [2]*cluster.Proc
		for i := range all {
			all[i] = p.keptStore(t, "--global_segment_size", "16MiB", "--keep", "off", "--offload_buffer_size", "32MiB")
		}
		p.waitMounted(t, 2)
		return all
	}
	stores := start()
	for i := range n {
		require.Eventually(t, func() bool {
			return p.client(t, tierValue(i), "put", fmt.Sprint("tiered", i)).Code == 0
		}, 30*time.Second, 20*time.Millisecond)
	}
	p.allThere(t, 0, n)
	for _, s := range stores {
		s.Kill()
	}
	p.master.Kill()
	p.startMaster(t)
	start()
	p.allThere(t, 0, n)
	files, err := os.ReadDir(filepath.Join(folder, "mooncake_cluster"))
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{"mooncake-ledger", "mooncake-tier", "mooncake-tier-1"}, names)
}

// metrics returns those of the store.
func (s *service) metrics(t *testing.T) string {
	t.Helper()
	text, err := s.node.get(t, "/metrics")
	require.NoError(t, err)
	return text
}

// TestStorageTierOfARESTService: the REST service of a store serves what lies on its tier alone.
func TestStorageTierOfARESTService(t *testing.T) {
	const n = 48
	p := startPool(t, 0, "--enable_offload")
	s := startService(t, p, "mooncake", "--enable_offload", "--ssd_offload_path", t.TempDir(), "--offload_size_limit", "256MiB", "--offload_buffer_size", "32MiB").ready(t)
	saved := regexp.MustCompile(`(?m)^mooncake_node_tier_saved_total\S* (\d+)$`)
	for i := range n {
		body, err := json.Marshal(map[string]string{"key": fmt.Sprint("tiered", i), "value": tierValue(i)})
		require.NoError(t, err)
		s.must(t, "PUT", "/api/put", string(body))
		require.Eventually(t, func() bool {
			m := saved.FindStringSubmatch(s.metrics(t))
			return m != nil && m[1] == fmt.Sprint(i+1)
		}, 30*time.Second, time.Millisecond)
	}
	for i := range n {
		require.Eventually(t, func() bool { // A lease may end on a busy machine.
			code, got := s.do(t, "GET", fmt.Sprint("/api/get/tiered", i), "")
			require.False(t, code == 200 && got != tierValue(i), "tiered%d has other bytes", i)
			return code == 200
		}, 30*time.Second, time.Millisecond, i)
	}
	require.Regexp(t, `(?m)^mooncake_client_tier_reads_total\S* [1-9]`, s.metrics(t))
}
