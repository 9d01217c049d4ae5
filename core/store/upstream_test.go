package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestTierServesClientsOfUpstream: such a client cannot read a storage tier. The object that it looks up or asks for comes back into
// memory, where it finds it later.
func TestTierServesClientsOfUpstream(t *testing.T) {
	ctx := context.Background()
	upstream := model.Caller{Client: model.UUID{Hi: 0xe}, Upstream: true}
	p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(2), time.Second })
	m := p.member("a", memberOptions{segments: []uint64{8 << 20}, node: p.tiered(newDisk(t, 256<<20), nil)})
	m.fill(t, 16)
	for _, k := range []string{"key8", "key9", "key10", "key11", "key12", "key13", "key14", "key15"} {
		require.NoError(t, m.Remove(ctx, k, true)) // Memory has space again.
	}
	exist := func(k string) bool {
		got, err := p.master.Exist(ctx, upstream, []model.Key{k})
		require.NoError(t, err)
		return got[0].Value
	}
	get := func(k string) errs.Code {
		got, err := p.master.GetReplicas(ctx, upstream, []model.Key{k}, nil)
		require.NoError(t, err)
		if got[0].Err == nil {
			require.True(t, got[0].Value.Replicas[0].Plain())
		}
		return errs.CodeOf(got[0].Err)
	}
	require.False(t, exist("key0"))
	require.Eventually(t, func() bool { return exist("key0") }, 20*time.Second, time.Millisecond)
	require.Equal(t, errs.OK, get("key0"))
	require.Equal(t, errs.ReplicaIsNotReady, get("key1"))
	require.Eventually(t, func() bool { return get("key1") == errs.OK }, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return m.count(t, "mooncake_node_tasks_done_total") == 2 }, 20*time.Second, time.Millisecond)
	require.Zero(t, m.count(t, "mooncake_node_tasks_failed_total"), "each was ordered once")
}
