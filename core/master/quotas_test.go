package master_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// startQuotas is start with the quotas of a policy file, sizes in pages.
func startQuotas(t *testing.T, quotas map[string]int, pages ...int) *rig {
	t.Helper()
	keeper, err := quota.OpenKeeper(policyFile(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for name, n := range quotas {
		_, err := keeper.Set(name, uint64(n*page))
		require.NoError(t, err)
	}
	return startDeps(t, func(d *master.Deps) { d.Tenants = keeper }, noLease, pages...)
}

func policyFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ntenants: []\n"), 0o600))
	return path
}

// startDeps is start with further dependencies.
func startDeps(t *testing.T, add func(*master.Deps), configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	cfg := master.DefaultConfig()
	cfg.MaxOpenRatio = 0
	cfg.EvictionHighWatermark, cfg.MetricReporting = 1, false
	if configure != nil {
		configure(&cfg)
	}
	r := &rig{t: t, ctx: context.Background(), client: model.UUID{Hi: 1, Lo: 1}, alloc: mastertest.NewAlloc(), lru: mastertest.NewLRU()}
	deps := master.Deps{Alloc: r.alloc, Evict: r.lru, Log: slog.New(slog.DiscardHandler)}
	add(&deps)
	var err error
	r.Service, err = master.New(cfg, deps)
	require.NoError(t, err)
	require.NoError(t, r.Start(r.ctx))
	t.Cleanup(func() { require.NoError(t, r.Stop(context.Background())) })
	for i, n := range pages {
		r.segs = append(r.segs, segment(i, n*page))
		require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[i]))
	}
	require.NoError(t, r.RemountSegments(r.ctx, r.client, r.segs))
	return r
}

func (r *rig) as(tenant string) model.Caller { return model.Caller{Client: r.client, Tenant: tenant} }

// store writes objects of so many pages for a tenant and returns the first failure.
func (r *rig) store(tenant string, pages int, keys ...string) error {
	r.t.Helper()
	for _, k := range keys {
		got, err := r.PutStart(r.ctx, r.as(tenant), items([]string{k}, pages*page), model.DefaultReplicateConfig(), nil)
		if err != nil {
			return err
		}
		if got[0].Err != nil {
			return got[0].Err
		}
		require.NoError(r.t, errOf(r.PutEnd(r.ctx, r.as(tenant), ends([]string{k}), nil)))
	}
	return nil
}

func (r *rig) keysOf(tenant string) []string {
	r.t.Helper()
	keys, err := r.ListKeys(r.ctx, r.as(tenant), "", "", 1000)
	require.NoError(r.t, err)
	return keys
}

func (r *rig) pagesOf(tenant string) uint64 {
	r.t.Helper()
	q, err := r.TenantQuota(r.ctx, tenant)
	require.NoError(r.t, err)
	return q.Charged / page
}

// One key of two tenants is two objects, in every call.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	r := startQuotas(t, map[string]int{"a": 16, "b": 16, "default": 16}, 64, 64)
	require.NoError(t, r.store("a", 1, "k", "only a"))
	require.NoError(t, r.store("b", 2, "k"))
	require.NoError(t, r.store("", 3, "k"))
	for tenant, size := range map[string]uint64{"a": 1, "b": 2, "": 3, "default": 3} {
		got, err := r.GetReplicas(r.ctx, r.as(tenant), []string{"k"}, nil)
		require.NoError(t, err)
		require.Equal(t, size*page, got[0].Value.Size, tenant)
		story, err := r.Why(r.ctx, r.as(tenant), "k")
		require.NoError(t, err)
		require.Equal(t, size*page, story.Size)
	}
	b := r.as("b")
	exist, err := r.Exist(r.ctx, b, []string{"only a"})
	require.NoError(t, err)
	require.False(t, exist[0].Value)
	require.Equal(t, []string{"k"}, r.keysOf("b"))
	keys, found, err := r.GetReplicasByRegex(r.ctx, b, ".", "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, keys)
	require.Equal(t, uint64(2*page), found[0].Value.Size)
	seen := 0
	r.WalkKeys(func(model.Key) bool { seen++; return true })
	require.Equal(t, 1, seen, "the default tenant's")

	got, err := r.Remove(r.ctx, b, []string{"only a"}, true)
	require.NoError(t, err)
	require.Equal(t, one(errs.ObjectNotFound), errCodes(got))
	cleared, err := r.ClearReplicas(r.ctx, b, []string{"only a"}, r.client, "")
	require.NoError(t, err)
	require.Empty(t, cleared)
	_, err = r.CopyStart(r.ctx, b, model.CopyObject, "only a", "", []string{"node-0:1"})
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err))
	_, err = r.CreateTask(r.ctx, b, model.TaskSpec{Key: "only a", Targets: []string{"node-0:1"}})
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err))
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(errOf(r.PutEnd(r.ctx, b, ends([]string{"only a"}), nil))))
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(errOf(r.PutRevoke(r.ctx, b, revokes([]string{"only a"})))))

	n, err := r.RemoveByRegex(r.ctx, b, ".", true)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"k", "only a"}, r.keysOf("a"))
	require.NoError(t, r.store("b", 1, "k", "l"))
	n, err = r.RemoveAll(r.ctx, b, true)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"k"}, r.keysOf("default"))
	n, err = r.RemoveAll(r.ctx, r.as(model.AllTenants), true)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Empty(t, r.alloc.Live())
	for _, tenant := range []string{"a", "b", "default"} {
		require.Zero(t, r.pagesOf(tenant))
	}
}

// A group is a tenant's own: a lease on a member protects none of another tenant's.
func TestGroupsBelongToTenants(t *testing.T) {
	r := startQuotas(t, map[string]int{"a": 4, "b": 4}, 16)
	for _, tenant := range []string{"a", "b"} {
		for _, k := range []string{"x", "y"} {
			got, err := r.PutStart(r.ctx, r.as(tenant), []model.PutItem{{Key: k, Size: page, Group: "g"}}, model.DefaultReplicateConfig(), nil)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
			require.NoError(t, errOf(r.PutEnd(r.ctx, r.as(tenant), ends([]string{k}), nil)))
		}
	}
	require.NoError(t, r.store("a", 3, "z"))
	require.Equal(t, []string{"z"}, r.keysOf("a"), "the group went together")
	require.Equal(t, []string{"x", "y"}, r.keysOf("b"))
	story, err := r.Why(r.ctx, r.as("b"), "x")
	require.NoError(t, err)
	require.Equal(t, "g", story.Group)
}

func TestQuotaTakesFromItsOwnTenantOnly(t *testing.T) {
	r := startQuotas(t, map[string]int{"a": 4, "b": 4}, 64)
	require.NoError(t, r.store("b", 1, "b1"))
	require.NoError(t, r.store("a", 1, "a1", "a2", "a3", "a4"))
	require.NoError(t, r.store("a", 2, "a5"), "there is space in the pool, and none in the quota")
	require.Equal(t, []string{"a3", "a4", "a5"}, r.keysOf("a"))
	require.Equal(t, []string{"b1"}, r.keysOf("b"), "the oldest of all stays")
	story, err := r.Why(r.ctx, r.as("a"), "a1")
	require.NoError(t, err)
	require.Equal(t, model.FateEvicted, story.Fate)
	require.Contains(t, story.Reason, "quota")
	require.Equal(t, uint64(4), r.pagesOf("a"))
	require.Equal(t, errs.TenantQuotaExceeded, errs.CodeOf(r.store("a", 5, "too large")))
	require.Equal(t, []string{"a3", "a4", "a5"}, r.keysOf("a"), "nothing goes for what can never fit")
	require.Equal(t, errs.TenantNotRegistered, errs.CodeOf(r.store("absent", 1, "k")))
	_, err = r.PutStart(r.ctx, r.as("_bad"), items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)
	require.Equal(t, errs.TenantNotRegistered, errs.CodeOf(err))
	require.Equal(t, errs.TenantNotEmpty, errs.CodeOf(r.DeleteTenantQuota(r.ctx, "b")))
	_, err = r.RemoveAll(r.ctx, r.as("b"), true)
	require.NoError(t, err)
	require.NoError(t, r.DeleteTenantQuota(r.ctx, "b"))
	require.Equal(t, errs.TenantNotRegistered, errs.CodeOf(r.store("b", 1, "k")))
}

// Whatever becomes of an object, its tenant gets back what it was charged.
func TestEveryEndRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startQuotas(t, map[string]int{"a": 32}, 32, 32)
		a := r.as("a")
		begin := func(cfg model.ReplicateConfig, k string) {
			got, err := r.PutStart(r.ctx, a, items([]string{k}, page), cfg, nil)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
		}
		begin(model.ReplicateConfig{ReplicaNum: 5}, "k")
		require.Equal(t, uint64(2), r.pagesOf("a"), "two nodes, two copies")
		require.NoError(t, errOf(r.PutRevoke(r.ctx, a, revokes([]string{"k"}))))
		require.Empty(t, r.alloc.Live(), "its writer writes no more: free at once")
		require.Zero(t, r.pagesOf("a"))

		begin(model.ReplicateConfig{ReplicaNum: 2}, "k")
		require.NoError(t, errOf(r.PutEnd(r.ctx, a, ends([]string{"k"}), nil)))
		begin(model.ReplicateConfig{ReplicaNum: 1, Upsert: true}, "k")
		require.Equal(t, uint64(1), r.pagesOf("a"), "the new value's")
		r.keepAlive(602 * time.Second)
		require.Zero(t, r.pagesOf("a"), "given up as overdue")

		begin(model.ReplicateConfig{ReplicaNum: 2}, "k")
		require.NoError(t, errOf(r.PutEnd(r.ctx, a, ends([]string{"k"}), nil)))
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		synctest.Wait()
		require.Equal(t, uint64(1), r.pagesOf("a"), "a copy is lost")
		require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[0]))
		_, err := r.CopyStart(r.ctx, a, model.MoveObject, "k", "node-1:1", []string{"node-0:1"})
		require.NoError(t, err)
		require.Equal(t, uint64(2), r.pagesOf("a"), "while it is moved")
		require.NoError(t, r.CopyEnd(r.ctx, a, model.MoveObject, "k"))
		require.Equal(t, uint64(1), r.pagesOf("a"))
		_, err = r.CopyStart(r.ctx, a, model.CopyObject, "k", "", []string{"node-1:1"})
		require.NoError(t, err)
		require.NoError(t, r.CopyRevoke(r.ctx, a, model.CopyObject, "k"))
		require.Equal(t, uint64(1), r.pagesOf("a"))
		_, err = r.CreateTask(r.ctx, a, model.TaskSpec{Key: "k", Targets: []string{"nowhere"}})
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		require.NoError(t, r.MountSegment(r.ctx, r.client, segment(2, page/2)))
		_, err = r.CopyStart(r.ctx, a, model.CopyObject, "k", "", []string{"node-2:1"})
		require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
		require.Equal(t, uint64(1), r.pagesOf("a"), "a copy that found no space costs nothing")
		settled(11 * time.Second) // the only node falls silent
		_, err = r.TenantQuota(r.ctx, "a")
		require.NoError(t, err)
		require.Zero(t, r.pagesOf("a"))
	})
}

// The nodes that fell silent are named, once, so that what they published can go.
func TestExpiredNodesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		var mu sync.Mutex
		tell := func(_ context.Context, segments []string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, strings.Join(segments, ","))
		}
		told := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		r := startDeps(t, func(d *master.Deps) { d.Expired = tell }, nil, 4, 4)
		other := model.UUID{Hi: 9}
		require.NoError(t, r.MountSegment(r.ctx, other, segment(2, page)))
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		r.keepAlive(5 * time.Second)
		require.Empty(t, told(), "neither for an unmount nor before its time")
		r.keepAlive(8 * time.Second)
		require.Equal(t, []string{"node-2:1"}, told())
		settled(12 * time.Second)
		require.Equal(t, []string{"node-2:1", "node-1:1"}, told())
	})
}
