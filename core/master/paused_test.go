package master_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// preferring is a configuration of puts to the first segment of a node.
func preferring(k *keeper) model.ReplicateConfig {
	return model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{k.segs[0].Name}}
}

// owing makes a node silent whose ledger lacks a record: that of a removal, of which the caller hears that it is not confirmed.
func (k *keeper) owing(r *rig, key string) {
	k.t.Helper()
	k.mute.Store(true)
	require.Equal(k.t, one(errs.UnavailableInCurrentStatus), r.remove(true, key))
}

// TestRemovalsWaitForASilentNodeOnce: removals of objects of other nodes do not wait for it.
func TestRemovalsWaitForASilentNodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 16), newKeeper(t, 2, 16)
		r := startAttached(t, noLease, a, b)
		require.NoError(t, second(r.putBy(model.Caller{Client: r.client}, preferring(a), "silent", 1)))
		for i := range 5 {
			require.NoError(t, second(r.putBy(model.Caller{Client: r.client}, preferring(b), fmt.Sprint(i), 1)))
		}
		flushed()
		a.owing(r, "silent")
		began := time.Now()
		for i := range 5 {
			require.Equal(t, one(errs.OK), r.remove(true, fmt.Sprint(i)))
		}
		require.Less(t, time.Since(began), time.Second)
	})
}

// TestSilentNodesAreWaitedForTogether: a call that needs several silent nodes waits no longer than for one.
func TestSilentNodesAreWaitedForTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*keeper
		for i := range 4 {
			nodes = append(nodes, newKeeper(t, uint64(i+1), 64))
		}
		r := startAttached(t, noLease, nodes...)
		keys := names("k", 0, 128)
		r.put(keys...)
		flushed()
		for _, k := range nodes[1:] {
			k.mute.Store(true)
		}
		began := time.Now()
		var failed int
		for _, code := range r.remove(true, keys...) {
			if code != errs.OK {
				require.Equal(t, errs.UnavailableInCurrentStatus, code)
				failed++
			}
		}
		require.InDelta(t, time.Second, time.Since(began), float64(200*time.Millisecond))
		require.Greater(t, failed, 64)
		require.Less(t, failed, 128, "the objects of the node that answers are removed, and that is confirmed")
		require.Empty(t, r.here())
	})
}

// TestRemoveAllBesideASilentNode: everything is removed, and the error says that one node has not confirmed it.
func TestRemoveAllBesideASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 2000), newKeeper(t, 2, 2000)
		r := startAttached(t, noLease, a, b)
		r.put(names("k", 0, 3000)...)
		flushed()
		a.mute.Store(true)
		began := time.Now()
		n, err := r.RemoveAll(r.ctx, model.Caller{Client: r.client}, true)
		require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
		require.ErrorContains(t, err, a.segs[0].Name)
		require.Equal(t, 3000, n)
		require.Empty(t, r.here())
		require.LessOrEqual(t, time.Since(began), 1100*time.Millisecond)
	})
}

// TestASilentNodeLosesItsOwnUpstreamObjectsOnly: of a batch of upstream's clients, the objects stay whose nodes confirm.
func TestASilentNodeLosesItsOwnUpstreamObjectsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 8), newKeeper(t, 2, 8)
		r := startAttached(t, nil, a, b)
		for key, k := range map[string]*keeper{"silent": a, "confirmed": b} {
			begun, err := r.PutStart(r.ctx, upstream(1), items([]string{key}, page), preferring(k), nil)
			require.NoError(t, err)
			require.NoError(t, begun[0].Err)
		}
		flushed()
		a.mute.Store(true)
		ended, err := r.PutEnd(r.ctx, upstream(1), []model.EndItem{{Key: "silent"}, {Key: "confirmed"}}, nil)
		require.NoError(t, err)
		require.Equal(t, []errs.Code{errs.UnavailableInCurrentStatus, errs.OK}, errCodes(ended))
		_, code := r.getBy(upstream(2), "confirmed")
		require.Equal(t, errs.OK, code)
		_, code = r.getBy(upstream(2), "silent")
		require.Equal(t, errs.ObjectNotFound, code, "bytes may be missing")
		a.leave()
	})
}

// TestUpsertsLeaveASilentNode: an upsert gets new memory where that of the old value lies on a silent node.
func TestUpsertsLeaveASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 16), newKeeper(t, 2, 16)
		r := startAttached(t, noLease, a, b)
		caller := model.Caller{Client: r.client}
		for _, key := range []string{"k", "other"} {
			require.NoError(t, second(r.putBy(caller, preferring(a), key, 1)))
		}
		flushed()
		a.owing(r, "other")
		settled(time.Second)
		up := model.DefaultReplicateConfig()
		up.Upsert = true
		got, err := r.putBy(caller, up, "k", 1)
		require.NoError(t, err)
		require.Equal(t, b.segs[0].Name, got[0].Segment)
	})
}

// TestQuotasCountAbsentNodes: what lies on an absent node stays charged, and its memory stays a part of what quotas divide. So
// the tenants of the other nodes keep their objects.
func TestQuotasCountAbsentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas, err := quota.OpenKeeper(policyFile(t), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		for _, tenant := range []string{"a", "b"} {
			_, err = quotas.Set(tenant, 40*page)
			require.NoError(t, err)
		}
		r := startDeps(t, func(d *master.Deps) { d.Tenants = quotas }, func(c *master.Config) {
			noLease(c)
			c.ClientTTL, c.SegmentRetention = 10*time.Second, time.Hour
		})
		one, other := newKeeper(t, 1, 40), newKeeper(t, 2, 40)
		one.join(r)
		other.join(r)
		for _, tenant := range []string{"a", "b"} {
			require.NoError(t, r.store(tenant, 1, names("k", 0, 40)...))
		}
		flushed()
		other.leave()
		settled(20 * time.Second)
		left := len(r.keysOf("a")) + len(r.keysOf("b"))
		require.Greater(t, left, 20, "those of one node")
		require.NoError(t, r.store("a", 1, "new"))
		require.GreaterOrEqual(t, len(r.keysOf("a"))+len(r.keysOf("b")), left-1, "one makes way in the quota, and one in memory")
		one.leave()
	})
}
