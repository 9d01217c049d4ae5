package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
)

// TestStorageTiersAreCountedApart: an object goes from memory to a storage tier and with it. Gauges, counters and the log
// line tell both apart, and the object is announced as gone when its last copy goes, and no earlier.
func TestStorageTiersAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, a := newKeeper(t, 1, 64, 128), &router{each: make(chan struct{}, 16)}
		k.segs[1].Protocol, k.segs[1].Name = model.ProtocolTier, "node/tier0"
		mem, tier := k.segs[0], k.segs[1]
		r := startDeps(t, func(d *master.Deps) { d.Announcer = a }, func(c *master.Config) {
			noLease(c)
			c.Tiers, c.ClientTTL = &model.TierPolicy{QueueLimit: 10}, time.Hour
		})
		r.client = k.client
		defer k.leave()
		k.join(r)
		caller := model.Caller{Client: k.client}
		check := func(values map[string]float64, line string) {
			t.Helper()
			for name, want := range values {
				require.Equal(t, want, r.value(name), name)
			}
			require.Contains(t, r.Summary(), line)
			families, err := r.Metrics().Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "segment_total_capacity_bytes" {
					require.Len(t, f.GetMetric(), 1, "that of memory")
				}
			}
		}
		check(map[string]float64{
			"master_total_capacity_bytes": 64 * page, "segment_total_capacity_bytes": 64 * page, "master_total_file_capacity_bytes": 128 * page,
			"master_allocated_file_size_bytes": 0, "file_cache_nums_": 0,
		}, "SSD Storage: 0 B / 128.00 KB | ")

		r.put("k")
		_, err := r.CopyStart(r.ctx, caller, model.CopyObject, "k", "", []string{tier.Name})
		require.NoError(t, err)
		check(map[string]float64{"file_cache_nums_": 0, "mem_cache_nums_": 1}, "Keys: 1 ")
		require.NoError(t, r.CopyEnd(r.ctx, caller, model.CopyObject, "k"))
		r.get("k")
		check(map[string]float64{
			"master_allocated_bytes": page, "master_allocated_file_size_bytes": page, "segment_allocated_bytes": page,
			"mem_cache_nums_": 1, "file_cache_nums_": 1, "mem_cache_hit_nums_": 1, "file_cache_hit_nums_": 0,
		}, "Mem Storage: 1.00 KB / 64.00 KB (1.6%) | NVMe-oF SSD: 0 B / 0 B | SSD Storage: 1.00 KB / 128.00 KB | ")
		require.Equal(t, []string{"stored default/k"}, a.news())

		cleared, err := r.ClearReplicas(r.ctx, caller, []model.Key{"k"}, k.client, mem.Name)
		require.NoError(t, err)
		require.Len(t, cleared, 1)
		r.get("k")
		check(map[string]float64{
			"master_allocated_bytes": 0, "master_allocated_file_size_bytes": page, "segment_allocated_bytes": 0,
			"mem_cache_nums_": 0, "file_cache_nums_": 1, "mem_cache_hit_nums_": 1, "mem_cache_hit_bytes_total": page,
			"file_cache_hit_nums_": 1, "file_cache_hit_bytes_total": page, "valid_get_nums_": 2, "total_get_nums_": 2,
		}, "Mem Storage: 0 B / 64.00 KB (0.0%) | ")
		require.Empty(t, a.news(), "the object is there")

		require.NoError(t, r.UnmountSegment(r.ctx, k.client, tier.ID, 0))
		synctest.Wait()
		check(map[string]float64{"master_total_file_capacity_bytes": 0, "file_cache_nums_": 0, "mem_cache_nums_": 0, "master_key_count": 0}, "SSD Storage: 0 B / 0 B | ")
		require.Equal(t, []string{"removed default/k"}, a.news())
	})
}
