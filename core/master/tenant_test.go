package master_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// startTenants runs a master with one tenant beside the default one, on two segments of
// that many pages, and returns what it holds the quotas in.
func startTenants(t *testing.T, pages int) (*rig, *quota.Keeper) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ntenants:\n- {name: default, quota: 100KB}\n- {name: blue, quota: 10KB}\n"), 0o600))
	log := slog.New(slog.DiscardHandler)
	keeper, err := quota.OpenKeeper(path, log)
	require.NoError(t, err)
	cfg := master.DefaultConfig()
	cfg.EvictionHighWatermark, cfg.MetricReporting = 1, false
	r := &rig{t: t, ctx: t.Context(), client: model.UUID{Hi: 1, Lo: 1}}
	r.Service, err = master.New(cfg, master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Log: log, Tenants: keeper})
	require.NoError(t, err)
	require.NoError(t, r.Start(r.ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, r.Stop(ctx))
	})
	for i := range 2 {
		require.NoError(t, r.MountSegment(r.ctx, r.client, segment(i, pages*page)))
	}
	return r, keeper
}

func (r *rig) putAs(tenant model.Tenant, key string, size int, cfg model.ReplicateConfig) errs.Code {
	r.t.Helper()
	caller := model.Caller{Client: r.client, Tenant: tenant}
	got, err := r.PutStart(r.ctx, caller, items([]string{key}, size), cfg, nil)
	require.NoError(r.t, err)
	if got[0].Err == nil {
		each, err := r.PutEnd(r.ctx, caller, ends([]string{key}), nil)
		require.NoError(r.t, err)
		require.NoError(r.t, each[0])
	}
	return errs.CodeOf(got[0].Err)
}

func (r *rig) charged(tenant model.Tenant) uint64 {
	r.t.Helper()
	q, err := r.TenantQuota(r.ctx, tenant)
	require.NoError(r.t, err)
	return q.Charged
}

// A tenant pays for the copies that it gets, however many it asks for.
func TestATenantPaysForTheCopiesThereCanBe(t *testing.T) {
	r, _ := startTenants(t, 100)
	require.Equal(t, errs.OK, r.putAs("blue", "a", page, model.DefaultReplicateConfig()))
	for _, n := range []uint32{3, 20, 1 << 31, math.MaxUint32} {
		require.Equal(t, errs.OK, r.putAs("blue", "b", page, model.ReplicateConfig{ReplicaNum: n}), "%d copies", n)
		require.Equal(t, uint64(3*page), r.charged("blue"))
		_, err := r.Remove(r.ctx, model.Caller{Tenant: "blue"}, []string{"b"}, true)
		require.NoError(t, err)
		require.Equal(t, uint64(page), r.charged("blue"))
	}
	require.Equal(t, errs.TenantQuotaExceeded, r.putAs("blue", "c", 6*page, model.ReplicateConfig{ReplicaNum: 1 << 31}))
}

// What a tenant has stays readable when it leaves the policy, and stays as it is.
func TestATenantWithoutAQuotaOverwritesNothing(t *testing.T) {
	r, keeper := startTenants(t, 100)
	require.Equal(t, errs.OK, r.putAs("blue", "a", page, model.DefaultReplicateConfig()))
	upsert := model.ReplicateConfig{ReplicaNum: 1, Upsert: true}
	require.Equal(t, errs.OK, r.putAs("blue", "a", page, upsert))
	require.Equal(t, 1.0, r.value("master_upserts_in_place_total"))
	keeper.Usage().Apply(quota.Policy{})
	require.Equal(t, errs.TenantNotRegistered, r.putAs("blue", "a", page, upsert))
	require.Equal(t, errs.TenantNotRegistered, r.putAs("blue", "a", 2*page, upsert))
	got, err := r.GetReplicas(r.ctx, model.Caller{Tenant: "blue"}, []string{"a"}, nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
}

// A tenant can use its quota whatever the others have, and what they have stays as it is.
func TestATenantBehindManyObjectsOfOthers(t *testing.T) {
	r, keeper := startTenants(t, 1<<20)
	_, err := keeper.Set("default", 1<<30)
	require.NoError(t, err)
	const others, call = 5000, 2500
	keys := names("d", 0, others)
	caller := model.Caller{Client: r.client}
	for from := 0; from < others; from += call {
		got, err := r.PutStart(r.ctx, caller, items(keys[from:from+call], 16), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		_, err = r.PutEnd(r.ctx, caller, ends(keys[from:from+call]), nil)
		require.NoError(t, err)
	}
	for _, key := range names("b", 0, 30) {
		require.Equal(t, errs.OK, r.putAs("blue", key, page, model.DefaultReplicateConfig()))
	}
	blue, err := r.ListKeys(r.ctx, model.Caller{Tenant: "blue"}, "", "", 100)
	require.NoError(t, err)
	require.Equal(t, names("b", 20, 30), blue, "the oldest of its own went")
	require.Equal(t, uint64(others*16), r.charged("default"))
}
