package store_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestTierOfAnotherClusterIsWiped: its objects may have the same keys and other bytes.
func TestTierOfAnotherClusterIsWiped(t *testing.T) {
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	d := newDisk(t, 256<<20)
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
	m.fill(t, 3)
	m.stop()
	p.kill()
	p.boot()
	d.cluster = "another"
	m = p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
	require.NoError(t, m.Put(context.Background(), "new", content("new", 1<<20), model.DefaultReplicateConfig()))
	m.saved(t, 1)
	for i := range 3 {
		ok, err := m.Exist(context.Background(), fmt.Sprint("key", i))
		require.NoError(t, err)
		require.False(t, ok)
	}
}

// TestStopSavesTheRest: a node that stops first saves what waits.
func TestStopSavesTheRest(t *testing.T) {
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	d := newDisk(t, 256<<20)
	m := p.member("a", memberOptions{segments: []uint64{64 << 20}, node: p.tiered(d, nil)})
	const n = 30
	for i := range n {
		k := fmt.Sprint("key", i)
		require.NoError(t, m.Put(context.Background(), k, content(k, 1<<20), model.DefaultReplicateConfig()))
	}
	m.stop()
	p.kill()
	p.boot()
	m = p.member("a", memberOptions{segments: []uint64{64 << 20}, node: p.tiered(d, nil)})
	m.there(t, n, n)
}

// TestUnmountTiers: what lies on the tier only is gone for the pool at once, and nothing is saved any more. Peers that know
// where it lies go on reading. The next process has it again.
func TestUnmountTiers(t *testing.T) {
	ctx := context.Background()
	const n = 12
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	d := newDisk(t, 256<<20)
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
	m.fill(t, n)
	require.Equal(t, n, m.count(t, "mooncake_ssd_write_ops_total"))
	require.Equal(t, n<<20, m.count(t, "mooncake_ssd_write_bytes_total"))
	all, err := m.metrics.Gather()
	require.NoError(t, err)
	quantiles := map[string]int{}
	for _, f := range all {
		quantiles[f.GetName()] = len(f.GetMetric()[0].GetSummary().GetQuantile())
	}
	for _, kind := range []string{"read", "write", "total"} {
		require.Equal(t, 3, quantiles["mooncake_ssd_"+kind+"_latency_summary_us"])
	}
	var only, known model.Object // on the tier only, and in memory
	var onlyKey string
	for i := range n {
		k := fmt.Sprint("key", i)
		o, err := m.query(k)
		require.NoError(t, err)
		if len(o.Replicas) == 1 {
			only, onlyKey = o, k
		} else {
			known = o
		}
	}
	require.Len(t, only.Replicas, 1)
	require.Len(t, known.Replicas, 2)

	until, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.node.UnmountTiers(until, time.Hour) }()
	require.Eventually(t, func() bool { ok, err := m.Exist(ctx, onlyKey); return err == nil && !ok }, 20*time.Second, time.Millisecond)
	select {
	case err := <-done:
		t.Fatal("it did not wait for the grace", err)
	default:
	}
	r := only.Replicas[0]
	got, err := m.node.Stage(ctx, []model.StageRead{{Segment: r.SegmentID, Replica: r.ID, Size: only.Size, Length: only.Size}})
	require.NoError(t, err)
	require.NoError(t, got.Parts[0].Err)
	require.NoError(t, m.node.Release(ctx, got.ID))
	require.Equal(t, 1, m.count(t, "mooncake_ssd_read_ops_total"))
	require.Equal(t, 1<<20, m.count(t, "mooncake_ssd_read_bytes_total"))
	require.Equal(t, n+1, m.count(t, "mooncake_ssd_total_ops_total"))
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, m.node.UnmountTiers(ctx, time.Hour), "there is no tier any more, and nothing to wait for")

	for i := range n {
		k := fmt.Sprint("new", i)
		require.NoError(t, m.Put(ctx, k, content(k, 1<<20), model.DefaultReplicateConfig()), "it is evicted without being saved")
	}
	require.Equal(t, n, m.count(t, "mooncake_node_tier_saved_total"))
	require.True(t, m.node.Mounted())
	require.Equal(t, errs.InvalidParams, errs.CodeOf(m.node.UnmountTiers(ctx, -1)))

	m.stop()
	m = p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
	require.Eventually(t, func() bool { ok, err := m.Exist(ctx, onlyKey); return err == nil && ok }, 20*time.Second, time.Millisecond)
	require.True(t, bytes.Equal(content(onlyKey, 1<<20), m.staged(t, onlyKey)))
}

// TestUnmountTiersOfASilentMaster: the tiers stay if the master does not know that they went.
func TestUnmountTiersOfASilentMaster(t *testing.T) {
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	m.fill(t, 1)
	p.kill()
	require.Error(t, m.node.UnmountTiers(context.Background(), 0))
	p.boot()
	require.Eventually(t, func() bool {
		return m.Put(context.Background(), "k", []byte("v"), model.DefaultReplicateConfig()) == nil
	}, 20*time.Second, time.Millisecond)
	m.saved(t, 2)
	require.NoError(t, m.node.UnmountTiers(context.Background(), 0))
}

// TestDamagedCopyGoes: a reader gets no damaged bytes, and an object without a good copy leaves the pool, so that it can be
// put again.
func TestDamagedCopyGoes(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
	d := newDisk(t, 256<<20)
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(d, nil)})
	m.fill(t, 16)
	o, err := m.query("key0")
	require.NoError(t, err)
	require.Len(t, o.Replicas, 1)
	require.True(t, d.backing.Damage(content("key0", 1<<20)))
	got, err := m.node.Stage(ctx, []model.StageRead{{Segment: o.Replicas[0].SegmentID, Replica: o.Replicas[0].ID, Size: o.Size, Length: o.Size}})
	require.NoError(t, err)
	require.True(t, errs.Is(got.Parts[0].Err, errs.ChecksumMismatch), "%v", got.Parts[0].Err)
	require.Eventually(t, func() bool { ok, err := m.Exist(ctx, "key0"); return err == nil && !ok }, 20*time.Second, time.Millisecond)
	require.NoError(t, m.Put(ctx, "key0", content("key0", 1<<20), model.DefaultReplicateConfig()))
	require.Eventually(t, func() bool { return m.count(t, "mooncake_node_tier_lost_total") == 1 }, 20*time.Second, time.Millisecond)
}
