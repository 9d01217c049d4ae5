package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/config"
)

// smallTiers is an environment in which storage tiers take little.
var smallTiers = []string{"MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES=268435456", "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES=33554432"}

func tieredMaster(t *testing.T) string {
	return startMaster(t, func(c *config.Config) { c.Master.EnableOffload, c.Master.LeaseTTL = true, 100*time.Millisecond })
}

// TestStorageTiers: a store with enable_ssd_offload has more than its memory holds, says where it lies, and gives it up,
// with an engine of its own and with one that it shares.
func TestStorageTiers(t *testing.T) {
	for _, sharing := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared engine %v", sharing), func(t *testing.T) {
			master := tieredMaster(t)
			var engine *app.Engine
			if sharing {
				loaded, err := config.Load(config.Options{Role: config.RoleClient, Environ: []string{"MOONCAKE_STORE_LOCAL_HOSTNAME=127.0.0.1", "MOONCAKE_STORE_METADATA_SERVER=P2PHANDSHAKE"}})
				require.NoError(t, err)
				engine, err = app.OpenEngine(t.Context(), loaded.Config, builtin.Plugins(), app.EngineOptions{Log: quiet})
				require.NoError(t, err)
				defer func() { require.NoError(t, engine.Close(t.Context())) }()
			}
			s := store.New(options(os.Stderr, smallTiers...))
			given := dict(master, "global_segment_size=16MB", "enable_ssd_offload=True", "ssd_offload_path="+t.TempDir())
			require.Zero(t, s.Setup(t.Context(), given, false, engine), s.LastError())
			defer func() { require.Zero(t, s.Close(), s.LastError()) }()

			const n = 32
			keys := make([]string, n)
			value := func(i int) string { return strings.Repeat(fmt.Sprintf("value %08d\n", i), 1<<20/15) }
			var where store.Located
			counts := make([]uint64, n)
			for i := range n {
				keys[i] = fmt.Sprint("key", i)
				require.Eventually(t, func() bool { // until it is on the tier; an object that is not may be evicted
					put(s, keys[i], []byte(value(i)))
					s.Replicas(keys[i:i+1], &where, counts)
					for row := where.Rows; len(row) > 0; row = row[store.PerReplica:] {
						if row[4] == 1 {
							return true
						}
					}
					return false
				}, 20*time.Second, time.Millisecond, keys[i])
			}
			for i, k := range keys {
				require.Eventually(t, func() bool {
					got := get(s, k)
					require.True(t, got == nil || string(got) == value(i), "%s has other bytes", k)
					return got != nil // The lease may end before a busy machine has read it.
				}, 20*time.Second, time.Millisecond, k)
			}
			s.Replicas(keys, &where, counts)
			only, row := 0, where.Rows
			for i := range keys {
				onTier := 0
				for range counts[i] {
					onTier += int(row[4])
					assert.EqualValues(t, len(value(i)), row[1])
					assert.Equal(t, row[4] == 1, where.Endpoints[row[3]] != s.Hostname(), "a tier has an endpoint of its own")
					row = row[store.PerReplica:]
				}
				require.Equal(t, 1, onTier, keys[i])
				if counts[i] == 1 {
					only++
				}
			}
			require.Greater(t, only, n/2)
			require.GreaterOrEqual(t, *control(t, s, "get_offload_rpc_read_count", nil).Count, 1)

			require.Zero(t, control(t, s, "unmount_local_disk_segment", map[string]any{"grace_period_seconds": 0}).Code, s.LastError())
			s.Replicas(keys, &where, counts)
			for row := where.Rows; len(row) > 0; row = row[store.PerReplica:] {
				require.Zero(t, row[4], "nothing lies on a tier any more")
			}
			require.Zero(t, control(t, s, "unmount_local_disk_segment", map[string]any{"grace_period_seconds": 3600}).Code, "there is nothing to wait for")
		})
	}
}

// TestInvalidSSDOffload: setup fails where the path cannot be a tier, and nothing remains.
func TestInvalidSSDOffload(t *testing.T) {
	master, folder := tieredMaster(t), t.TempDir()
	link, file := filepath.Join(folder, "link"), filepath.Join(folder, "file")
	require.NoError(t, os.Symlink(folder, link))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{"relative", filepath.Join(folder, "none"), folder + "/../" + filepath.Base(folder), link, file} {
		s := store.New(options(os.Stderr, smallTiers...))
		assert.EqualValues(t, -600, s.Setup(t.Context(), dict(master, "enable_ssd_offload=1", "ssd_offload_path="+path), false, nil), path)
		assert.Contains(t, s.LastError(), "ssd_offload_path", path)
	}
	env := append([]string{"MOONCAKE_OFFLOAD_FILE_STORAGE_PATH=" + filepath.Join(folder, "none")}, smallTiers...)
	for code, more := range map[int64][]string{-600: {"enable_ssd_offload=1"}, 0: {"enable_ssd_offload=1", "ssd_offload_path=" + folder}} {
		s := store.New(options(os.Stderr, env...))
		assert.EqualValues(t, code, s.Setup(t.Context(), dict(master, more...), false, nil), "%v: %s", more, s.LastError())
		s.Close()
	}
}

// TestNoStorageTiersToUnmount: without a tier there is nothing to do, and the log says so. A dummy client has none.
func TestNoStorageTiersToUnmount(t *testing.T) {
	var log strings.Builder
	s := store.New(options(&log))
	assert.EqualValues(t, -1, control(t, s, "unmount_local_disk_segment", nil).Code, "it is not set up")
	require.Zero(t, s.Setup(t.Context(), dict(startMaster(t, nil)), false, nil), s.LastError())
	assert.Zero(t, control(t, s, "unmount_local_disk_segment", map[string]any{"grace_period_seconds": 5}).Code)
	assert.EqualValues(t, -1, control(t, s, "unmount_local_disk_segment", map[string]any{"grace_period_seconds": uint64(1) << 63}).Code)
	require.Zero(t, s.Close(), s.LastError())
	assert.Contains(t, log.String(), "no storage tier to unmount")
}
