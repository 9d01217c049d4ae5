package master_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func startWith(t *testing.T, strategy string, pages ...int) *rig {
	return start(t, func(c *master.Config) { c.AllocationStrategy = strategy }, pages...)
}

func noLease(c *master.Config) { c.LeaseTTL = 0 }

func TestFailedAllocationEvictsExactlyWhatIsMissing(t *testing.T) {
	r := start(t, noLease, 4, 4)
	r.put(names("a", 0, 8)...)
	r.get("a00000", "a00002")
	r.put(names("b", 0, 3)...)
	require.Equal(t, []string{"a00000", "a00002", "a00005", "a00006", "a00007", "b00000", "b00001", "b00002"}, r.here(),
		"the three least recently used went, and no more")
	require.Equal(t, 3.0, r.value("master_evicted_key_count"))
	require.Equal(t, 3.0*page, r.value("master_evicted_size_bytes"))
	require.Zero(t, r.value("master_put_start_alloc_failures_total"))
}

func TestExistDoesNotRefreshTheRank(t *testing.T) {
	for _, ranks := range []bool{false, true} {
		r := start(t, func(c *master.Config) { c.LeaseTTL = 0; c.ExistRanks = ranks }, 2)
		r.put("a", "b")
		r.exist("a")
		r.put("c")
		require.Equal(t, []bool{ranks}, r.exist("a"))
	}
}

// A put that can never get space fails at once and evicts nothing.
func TestAnImpossiblePutEvictsNothing(t *testing.T) {
	for _, c := range []struct {
		name     string
		segments []int // of so many pages
		drained  []string
		pages    int
	}{
		{"larger than the pool", []int{4, 4}, nil, 9},
		{"larger than what takes objects", []int{4, 4}, []string{"node-1:1"}, 5},
		{"in too many pieces", slices.Repeat([]int{1}, 66), nil, 65},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, noLease, c.segments...)
			keys := names("k", 0, len(c.segments))
			r.put(keys...)
			if c.drained != nil {
				require.NoError(t, second(r.CreateDrainJob(r.ctx, model.DrainSpec{Segments: c.drained, MaxConcurrency: 1})))
			}
			before := r.value("master_attempted_evictions_total")
			for _, cfg := range []model.ReplicateConfig{{ReplicaNum: 1}, {ReplicaNum: 2}, {ReplicaNum: 1, Upsert: true}} {
				for _, key := range []string{"new", "k00000"} {
					_, err := r.write(cfg, key, c.pages)
					if key == "k00000" && !cfg.Upsert {
						require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(err), "it is there, whatever its size")
						continue
					}
					require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
					require.False(t, errs.ClassOf(err).Retryable(), "a client does not ask again")
					require.ErrorContains(t, err, key)
				}
			}
			require.Equal(t, keys, r.here())
			require.Equal(t, before, r.value("master_attempted_evictions_total"))
			_, err := r.write(model.DefaultReplicateConfig(), "fits", 1)
			require.NoError(t, err)
		})
	}
}

// Pinned objects block a put for good. The other objects then stay too, unless evicting them frees
// enough space for the put.
func TestAPutThatPinsLeaveNoSpaceForEvictsNothing(t *testing.T) {
	r := start(t, noLease, 8)
	r.put("a", "b", "c")
	pin := model.ReplicateConfig{ReplicaNum: 1, HardPin: true}
	for _, k := range names("pin", 0, 5) {
		_, err := r.write(pin, k, 1)
		require.NoError(t, err)
	}
	_, err := r.write(model.DefaultReplicateConfig(), "large", 4)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
	require.True(t, errs.ClassOf(err).Retryable(), "pins come off")
	require.Equal(t, append([]string{"a", "b", "c"}, names("pin", 0, 5)...), r.here())
	require.Equal(t, one(errs.OK), r.remove(true, "pin00000"))
	_, err = r.write(model.DefaultReplicateConfig(), "large", 4)
	require.NoError(t, err)
	require.Equal(t, append([]string{"large"}, names("pin", 1, 5)...), r.here())
}

func TestHardPinIsNeverEvicted(t *testing.T) {
	r := start(t, noLease, 2)
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"pinned"}, page), model.ReplicateConfig{ReplicaNum: 1, HardPin: true}, nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	r.end("pinned")
	for _, k := range names("k", 0, 20) {
		r.put(k)
	}
	require.Equal(t, []string{"k00019", "pinned"}, r.here())
	require.Equal(t, one(errs.OK), r.remove(false, "pinned"))
}

func TestLeasedVictimsAreDeferredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 5)
		r.put("a", "b", "c", "d", "e")
		r.exist("a", "b", "c") // leased, still the least recent
		r.put("f")
		require.Equal(t, []bool{false}, r.exist("d"), "the first without a lease went")
		r.keepAlive(5 * time.Second)
		r.get("b") // read while deferred: leased longer, and recent now
		r.keepAlive(6 * time.Second)
		r.put("g")
		require.Equal(t, []string{"b", "c", "e", "f", "g"}, r.here(), "a goes first: it was first in line")
		r.put("h")
		require.Equal(t, []string{"b", "e", "f", "g", "h"}, r.here(), "then c")
		r.keepAlive(5 * time.Second)
		r.put("i", "j", "k")
		require.Equal(t, []string{"g", "h", "i", "j", "k"}, r.here(), "b was read after f was put, but before g")
	})
}

func TestEverythingLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 3)
		r.put("a", "b", "c")
		r.get("a", "b", "c")
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"x", "y"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, []errs.Code{errs.NoAvailableHandle, errs.NoAvailableHandle}, codes(got))
		require.ErrorContains(t, got[0].Err, "no space for 2.00 KB more; 3.00 KB in 3 objects are leased by readers, the first for another 10s")
		require.Equal(t, 2.0, r.value("master_put_start_alloc_failures_total"))
		r.keepAlive(10 * time.Second)
		r.put("x", "y")
		require.Equal(t, []string{"c", "x", "y"}, r.here())
		r.begin("z")
		r.begin("w")
		got, err = r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"v", "u", "t"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, []errs.Code{errs.OK, errs.NoAvailableHandle, errs.NoAvailableHandle}, codes(got))
		require.ErrorContains(t, got[1].Err, "3.00 KB are being written")
	})
}

func TestWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { c.EvictionHighWatermark, c.EvictionRatio = 0.9, 0.05 }, 100)
		r.put(names("k", 0, 90)...)
		settled(time.Second)
		require.Len(t, r.here(), 90, "at the watermark, not above")
		r.put(names("k", 90, 98)...)
		settled(time.Second)
		// 0.98-0.9+0.05 of 98 pages is 12.74.
		require.Equal(t, names("k", 13, 98), r.here(), "in the order in which they were put")
		r.get(names("k", 13, 98)...)
		r.put(names("n", 0, 10)...)
		settled(time.Second)
		require.Equal(t, names("k", 13, 98), r.here(), "leases protect, the new ones do not have any")
		r.keepAlive(10 * time.Second)
		r.put(names("m", 0, 6)...)
		settled(20 * time.Millisecond)
		// 0.91-0.9+0.05 of 91 pages is 5.46.
		require.Equal(t, append(names("k", 19, 98), names("m", 0, 6)...), r.here(), "leases have ended: the least recent go")
	})
}

// TestTheWatermarkEvictsOnce: what has been evicted is not free before the ledger of its node says so. The watermark counts it
// as free all the same, so that a node that pauses loses no more than one eviction takes.
func TestTheWatermarkEvictsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, 1, 100)
		r := startAttached(t, func(c *master.Config) {
			c.LeaseTTL, c.EvictionHighWatermark, c.EvictionRatio = 0, 0.9, 0.05
		}, k)
		r.put(names("k", 0, 90)...)
		flushed()
		r.put(names("k", 90, 95)...)
		k.mute.Store(true) // A pull is waiting, which takes the records of the evicted objects and acknowledges none.
		flushed()
		// 0.95-0.9+0.05 of 95 pages is 9.5.
		require.Equal(t, names("k", 10, 95), r.here())
		require.Len(t, r.alloc.Live(), 95, "the node has acknowledged nothing")
		k.mute.Store(false)
		flushed()
		require.Equal(t, names("k", 10, 95), r.here())
		require.Len(t, r.alloc.Live(), 85)
		r.put(names("k", 95, 105)...)
		flushed()
		require.Equal(t, names("k", 20, 105), r.here(), "the next eviction")
	})
}

// TestAPutEvictsNoMoreForANodeThatPauses: the memory that a put has evicted is not free while the node pauses. That is no
// sign of fragmentation, for which a put evicts twice as much each time.
func TestAPutEvictsNoMoreForANodeThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, 1, 200)
		r := startAttached(t, noLease, k)
		r.put(names("k", 0, 200)...)
		flushed()
		k.mute.Store(true)
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"new"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, []errs.Code{errs.NoAvailableHandle}, codes(got))
		require.ErrorContains(t, got[0].Err, "wait until store nodes confirm that they are free")
		k.mute.Store(false)
		settled(100 * time.Millisecond)
		require.Len(t, r.here(), 199, "one, and then the node was behind")
		require.Equal(t, one(errs.OK), r.begin("new"), "there is space now")

		k.mute.Store(true)
		var patient sync.WaitGroup
		patient.Go(func() { require.Equal(t, one(errs.OK), r.begin("patient"), "the node is back before the put gives up") })
		settled(2500 * time.Millisecond)
		k.mute.Store(false)
		patient.Wait()
		require.Equal(t, one(errs.OK), r.begin("next"), "the objects of the node can be evicted again at once")
	})
}

// TestACallerThatGivesUpBlamesNoNode: a node is behind only if it has let a call wait for as long as calls wait.
func TestACallerThatGivesUpBlamesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, 1, 4)
		r := startAttached(t, noLease, k)
		put := func(patience time.Duration) float64 {
			ctx, cancel := context.WithTimeout(r.ctx, patience)
			defer cancel()
			_, _ = r.PutStart(ctx, model.Caller{Client: r.client}, items([]string{patience.String()}, page), model.DefaultReplicateConfig(), nil)
			all, err := r.Segments(r.ctx)
			require.NoError(t, err)
			return all[0].Weight
		}
		k.mute.Store(true)
		require.EqualValues(t, 1, put(100*time.Millisecond))
		require.Zero(t, put(time.Minute))
		k.mute.Store(false)
		flushed()
		require.EqualValues(t, 1, put(2*time.Minute))
	})
}

// TestPutsPassBesideANodeThatPauses: once a node is behind with its ledger, puts evict objects of other nodes, and wait for
// those alone.
func TestPutsPassBesideANodeThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 100), newKeeper(t, 2, 100)
		r := startAttached(t, noLease, a, b)
		r.put(names("k", 0, 200)...)
		flushed()
		used := func() (of [2]uint64) {
			all, err := r.Segments(r.ctx)
			require.NoError(t, err)
			for _, s := range all {
				of[s.Client.Lo-1] = s.Used - s.Held
			}
			return of
		}
		require.Equal(t, [2]uint64{100 * page, 100 * page}, used())
		a.mute.Store(true)
		began := time.Now()
		for _, k := range names("n", 0, 50) {
			r.put(k)
		}
		require.LessOrEqual(t, time.Since(began), 2*time.Second, "the first one waits, before the node is behind")
		require.EqualValues(t, 99*page, used()[0], "no more than the first one evicts in vain")
		a.mute.Store(false)
		flushed()
		r.put(names("m", 0, 50)...)
		require.EqualValues(t, 100*page, used()[0], "objects come there again")
	})
}
