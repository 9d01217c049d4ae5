package master_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
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

// TestPromotionsAreBounded: objects come back into memory while it is used below the watermark and not too many do so at the same
// time, and the metrics say how these copies end.
func TestPromotionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, 1, 16, 128)
		k.segs[1].Protocol, k.segs[1].Name = model.ProtocolTier, "node/tier0"
		mem, tier := k.segs[0].Name, k.segs[1].Name
		r := startDeps(t, func(*master.Deps) {}, func(c *master.Config) {
			noLease(c)
			c.Tiers, c.ClientTTL, c.EvictionHighWatermark, c.MaxPromotions = &model.TierPolicy{QueueLimit: 10}, time.Hour, 0.5, 2
			c.EvictionRatio = 0 // Nothing is evicted.
		})
		r.client = k.client
		defer k.leave()
		k.join(r)
		caller := model.Caller{Client: k.client}
		start := func(key, from, to string) error {
			_, err := r.CopyStart(r.ctx, caller, model.CopyObject, key, from, []string{to})
			return err
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			r.put(key)
			require.NoError(t, start(key, mem, tier))
			require.NoError(t, r.CopyEnd(r.ctx, caller, model.CopyObject, key))
			_, err := r.ClearReplicas(r.ctx, caller, []model.Key{key}, k.client, mem)
			require.NoError(t, err)
		}
		require.Zero(t, r.value("master_promotion_admitted_total"), "these were copies to the tier")
		require.NoError(t, start("a", tier, mem))
		require.NoError(t, start("b", tier, mem))
		require.ErrorIs(t, start("c", tier, mem), errs.KeysUltraLimit.Err())
		require.EqualValues(t, 2, r.value("master_promotion_in_flight"))
		require.NoError(t, r.CopyEnd(r.ctx, caller, model.CopyObject, "a"))
		require.NoError(t, r.CopyRevoke(r.ctx, caller, model.CopyObject, "b"))
		require.NoError(t, start("c", tier, mem))
		time.Sleep(master.DefaultConfig().PutReleaseTimeout + 2*time.Second)
		synctest.Wait()
		require.Zero(t, r.value("master_promotion_in_flight"))
		for i := range 7 {
			r.put(fmt.Sprint("x", i)) // With a, half of the memory.
		}
		require.ErrorIs(t, start("d", tier, mem), errs.NoAvailableHandle.Err())
		for name, want := range map[string]float64{
			"admitted": 3, "completed": 1, "completed_bytes": page, "failed": 1, "expired": 1, "cancelled": 0, "rejected_cap": 1, "rejected_watermark": 1,
		} {
			require.Equal(t, want, r.value("master_promotion_"+name+"_total"), name)
		}
		require.Contains(t, r.Summary(), "Promotion: in_flight=0, admitted=3, completed=1, failed=1, cancelled=0, expired=1, bytes=1.00 KB, rejected(freq/wm/cap)=0/1/1")
	})
}
