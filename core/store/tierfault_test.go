package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
)

// badDisk is a node whose disk misbehaves as its plan says.
type badDisk struct {
	*member
	pool *pool
	disk *disk
	plan *faulty.Plan
	held *atomic.Bool // it forgets nothing
}

// onBadDisk runs a test whose time is that of a bubble.
func onBadDisk(t *testing.T, change func(*node.Tiers), run func(t *testing.T, m *badDisk)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, func(c *master.Config) { c.Tiers, c.LeaseTTL = tierPolicy(0), time.Millisecond })
		b := &badDisk{pool: p, disk: newDisk(t, 256<<20), plan: faulty.NewPlan(), held: new(atomic.Bool)}
		b.disk.wrap = func(x tier.Tier) tier.Tier { return &forgetless{Tier: faulty.Wrap(x, b.plan), held: b.held} }
		b.member = p.member("a", memberOptions{segments: []uint64{16 << 20}, node: p.tiered(b.disk, change)})
		t.Cleanup(func() {
			b.plan.Clear()
			b.plan.Release()
			b.held.Store(false)
		})
		run(t, b)
	})
}

// put puts an object of 1 MiB.
func (m *member) put(t *testing.T, k string) {
	require.NoError(t, m.Put(t.Context(), k, content(k, 1<<20), model.DefaultReplicateConfig()))
}

// isOnTier reports whether a storage tier has an object.
func (m *member) isOnTier(k string) bool {
	o, err := m.query(k)
	return err == nil && slices.ContainsFunc(o.Replicas, func(r model.Replica) bool { return r.OnTier() })
}

// tryStage has the node stage an object within some time, and returns the ID of the staging.
func (m *member) tryStage(t *testing.T, k string, patience time.Duration) (id uint64, err error) {
	o, err := m.query(k)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := m.stage(ctx, t, &o)
	return got.ID, err
}

// TestHungDisk: a disk that hangs affects nothing but itself. Puts and reads of memory go on, reads of the disk fail by their
// deadlines and, once it has hung for five seconds, at once. Nothing is saved until it answers again; then all is as before.
func TestHungDisk(t *testing.T) {
	onBadDisk(t, nil, func(t *testing.T, m *badDisk) {
		m.fill(t, 4)
		m.plan.Fault(faulty.Hang, faulty.When{})
		_, err := m.tryStage(t, "key0", time.Second)
		require.True(t, errs.Is(err, errs.RPCTimeout), "%v", err)
		m.put(t, "first")
		time.Sleep(6 * time.Second)

		hung := m.plan.Count(faulty.Hang)
		require.Positive(t, hung)
		for i := range 4 {
			began := time.Now()
			_, err := m.tryStage(t, fmt.Sprint("key", i), time.Minute)
			require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
			require.ErrorContains(t, err, "does not answer")
			require.Equal(t, began, time.Now(), "it was answered at once")
			k := fmt.Sprint("later", i)
			m.put(t, k)
			got, err := m.Get(t.Context(), k)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content(k, 1<<20), got))
		}
		time.Sleep(2 * time.Minute)
		require.Equal(t, hung, m.plan.Count(faulty.Hang), "nothing else was given to the disk")
		require.Equal(t, 4, m.count(t, "mooncake_node_tier_saved_total"))

		m.plan.Clear()
		m.plan.Release()
		m.saved(t, 9)
		require.Zero(t, m.count(t, "mooncake_node_tier_failed_total"))
		for _, k := range []string{"key0", "first", "later0", "later1", "later2", "later3"} {
			require.True(t, bytes.Equal(content(k, 1<<20), m.staged(t, k)), k)
		}
	})
}

// TestHungReadsKeepTheirMemory: staging memory that a hung disk may still write to is not lent again until the disk lets go
// of it.
func TestHungReadsKeepTheirMemory(t *testing.T) {
	onBadDisk(t, func(x *node.Tiers) { x.Staging, x.StagingTTL = 4<<20, time.Hour }, func(t *testing.T, m *badDisk) {
		m.fill(t, 1)
		m.plan.Fault(faulty.Hang, faulty.When{Limit: 1})
		_, err := m.tryStage(t, "key0", time.Second)
		require.True(t, errs.Is(err, errs.RPCTimeout), "%v", err)
		for range 3 {
			_, err := m.tryStage(t, "key0", time.Second)
			require.NoError(t, err)
		}
		_, err = m.tryStage(t, "key0", time.Second)
		require.ErrorContains(t, err, "the staging memory is in use")
		m.plan.Release()
		synctest.Wait()
		_, err = m.tryStage(t, "key0", time.Second)
		require.NoError(t, err)
	})
}

// TestMemoryGoesOnWhileADiskForgetsNothing: removals from a disk that hangs are not confirmed, and memory is used again all the
// same, also at the next master. The tier is there again once it forgets.
func TestMemoryGoesOnWhileADiskForgetsNothing(t *testing.T) {
	for _, takeover := range []bool{false, true} {
		t.Run(fmt.Sprint("takeover ", takeover), func(t *testing.T) {
			onBadDisk(t, nil, func(t *testing.T, m *badDisk) {
				m.fill(t, 2)
				m.held.Store(true)
				err := m.Remove(t.Context(), "key0", true)
				require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
				if takeover {
					m.pool.kill()
					m.pool.boot()
					require.Eventually(t, func() bool {
						return m.Put(t.Context(), "first", content("first", 1<<20), model.DefaultReplicateConfig()) == nil
					}, time.Minute, time.Millisecond)
				}
				for i := range 64 { // Four times the memory.
					m.put(t, fmt.Sprint("more", i))
					time.Sleep(500 * time.Millisecond) // Attempts to forget fail meanwhile.
				}
				m.held.Store(false)
				require.Eventually(t, func() bool {
					ok, err := m.Exist(t.Context(), "key1")
					return err == nil && ok
				}, time.Minute, 100*time.Millisecond)
				require.Eventually(t, func() bool { // The first attempt may come too early to be confirmed.
					err := m.Remove(t.Context(), "key1", true)
					return err == nil || errs.Is(err, errs.ObjectNotFound)
				}, time.Minute, 100*time.Millisecond)
				ok, err := m.Exist(t.Context(), "key0")
				require.NoError(t, err)
				require.False(t, ok)
				m.put(t, "last")
				require.Eventually(t, func() bool { return m.isOnTier("last") }, time.Minute, time.Millisecond)
				require.True(t, bytes.Equal(content("last", 1<<20), m.staged(t, "last")))
			})
		})
	}
}

// TestADiskThatForgetsNothingIsEvictedOnce: what a disk is still to forget uses its space, and no further copies go for it.
func TestADiskThatForgetsNothingIsEvictedOnce(t *testing.T) {
	onBadDisk(t, func(x *node.Tiers) { x.High, x.Low = 0.125, 0.0625 }, func(t *testing.T, m *badDisk) { // 32 and 16 objects
		m.fill(t, 30)
		m.held.Store(true)
		for i := 30; i < 38; i++ {
			m.put(t, fmt.Sprint("key", i))
		}
		onTier := func() (n int) {
			for i := range 38 {
				if m.isOnTier(fmt.Sprint("key", i)) {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		require.Less(t, onTier(), 30, "the watermark was not reached")
		require.Greater(t, onTier(), 12)
		m.held.Store(false)
		m.put(t, "last")
		require.Eventually(t, func() bool { return m.isOnTier("last") }, time.Minute, time.Millisecond)
	})
}

// TestFailedSavesAreTriedAgain: a save that failed is tried again until it works, unless the object or the disk is gone.
func TestFailedSavesAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fault                  faulty.Fault
		when                   faulty.When
		remove                 bool
		saved, retried, failed int
	}{
		"some places of the disk are bad": {fault: faulty.WriteError, when: faulty.When{Limit: 3}, saved: 1, retried: 3},
		"it has no space for a while":     {fault: faulty.NoSpace, when: faulty.When{Limit: 2}, saved: 1, retried: 2},
		"all places are bad":              {fault: faulty.WriteError, retried: 8, failed: 1},
		"the disk takes no writes":        {fault: faulty.WriteError, when: faulty.When{Class: errs.ClassLocalDevice}, failed: 1},
		"the object went":                 {fault: faulty.WriteError, remove: true, retried: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onBadDisk(t, nil, func(t *testing.T, m *badDisk) {
				m.plan.Fault(c.fault, c.when)
				m.put(t, "k")
				if c.remove {
					require.Eventually(t, func() bool { return m.count(t, "mooncake_node_tier_retried_total") > 0 }, time.Minute, time.Millisecond)
					require.NoError(t, m.Remove(t.Context(), "k", true))
				}
				time.Sleep(10 * time.Minute)
				require.Equal(t, c.saved, m.count(t, "mooncake_node_tier_saved_total"))
				require.Equal(t, c.retried, m.count(t, "mooncake_node_tier_retried_total"))
				require.Equal(t, c.failed, m.count(t, "mooncake_node_tier_failed_total"))
			})
		})
	}
}

// TestSavesLeaveASlowDiskToReaders: while reads take long, one object is saved in a second.
func TestSavesLeaveASlowDiskToReaders(t *testing.T) {
	onBadDisk(t, nil, func(t *testing.T, m *badDisk) {
		m.fill(t, 1)
		m.plan.Fault(faulty.Slow, faulty.When{Match: func(o tier.Op) bool { return o.Kind == tier.Read }})
		stop := make(chan struct{})
		var readers sync.WaitGroup
		readers.Go(func() { // There is always one that waits.
			for {
				select {
				case <-stop:
					return
				default:
				}
				id, err := m.tryStage(t, "key0", time.Minute)
				require.NoError(t, err)
				require.NoError(t, m.node.Release(t.Context(), id))
			}
		})
		turn := func(n int) {
			for range n {
				time.Sleep(900 * time.Millisecond)
				m.plan.Release()
			}
		}
		turn(20)
		for i := range 8 {
			m.put(t, fmt.Sprint("k", i))
		}
		turn(5)
		got := m.count(t, "mooncake_node_tier_saved_total")
		require.Greater(t, got, 1)
		require.LessOrEqual(t, got, 1+5)
		close(stop)
		m.plan.Clear()
		m.plan.Release()
		readers.Wait()
		m.saved(t, 9)
		require.Zero(t, m.count(t, "mooncake_node_tier_retried_total"))
	})
}

// TestWriteBudget: a disk that has used its budget up gets what is put a second time.
func TestWriteBudget(t *testing.T) {
	onBadDisk(t, func(x *node.Tiers) { x.WriteBudget = 24 * 4 << 20 }, func(t *testing.T, m *badDisk) {
		keys := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
		for _, k := range keys {
			m.put(t, k)
		}
		time.Sleep(time.Second)
		require.Equal(t, 4, m.count(t, "mooncake_node_tier_saved_total"))
		require.Equal(t, 4, m.count(t, "mooncake_node_tier_refused_total"))
		for _, k := range keys[:4] {
			m.staged(t, k)
		}
		for _, k := range keys[4:] {
			require.NoError(t, m.Remove(t.Context(), k, true))
			m.put(t, k)
		}
		m.saved(t, 8)
		require.Equal(t, 4, m.count(t, "mooncake_node_tier_refused_total"))
		m.put(t, "k8")
		time.Sleep(time.Second)
		require.Equal(t, 8, m.count(t, "mooncake_node_tier_saved_total"))
		require.Equal(t, 5, m.count(t, "mooncake_node_tier_refused_total"))
	})
}

// forgetless is a tier that forgets nothing while it is held.
type forgetless struct {
	tier.Tier
	held *atomic.Bool
}

func (f *forgetless) Forget(ctx context.Context, at []tier.Locator) error {
	for f.held.Load() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.Tier.Forget(ctx, at)
}

// TestNothingIsConfirmedThatMayReturn: a removal is confirmed once no next process of the node can find the record: not before
// the tier has forgotten it, although the ledger has lost it already.
func TestNothingIsConfirmedThatMayReturn(t *testing.T) {
	onBadDisk(t, nil, func(t *testing.T, m *badDisk) {
		p, d := m.pool, m.disk
		m.fill(t, 2)
		m.held.Store(true)
		confirmed := m.Remove(t.Context(), "key0", true)
		require.True(t, errs.Is(confirmed, errs.UnavailableInCurrentStatus), "%v", confirmed)

		m.stop() // The tier has not forgotten the record, and goes without its ledger.
		p.kill()
		files, err := filepath.Glob(filepath.Join(d.folder, "ledger-*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		m.held.Store(false)
		p.boot()
		next := p.member("a", memberOptions{segments: []uint64{16 << 20}, node: p.tiered(d, nil)})
		next.there(t, 2, 2)
		require.NoError(t, next.Remove(t.Context(), "key0", true))
		next.there(t, 2, 1)
	})
}
