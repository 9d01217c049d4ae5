package evictor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// newSavingFixture is a fixture whose objects lie in the memory of a node with a storage tier, which saves what eviction
// chooses.
func newSavingFixture(t *testing.T) (b *fixture, tier *segments.Segment) {
	b = newFixture(t, nil)
	b.table.SaveOnEvict = true
	registry, node := segments.NewRegistry(), model.UUID{Hi: 1}
	b.registry = registry
	for i, protocol := range []string{"tcp", model.ProtocolTier} {
		s, _, err := registry.Prepare(node, model.Segment{ID: model.UUID{Lo: uint64(i + 1)}, Name: []string{"n", "n/tier0"}[i], Base: uint64(i+1) << 40, Size: 1 << 20, Protocol: protocol})
		require.NoError(t, err)
		registry.Add(s)
		b.seg, tier = tier, s
	}
	return b, tier
}

// save copies objects to the tier.
func (b *fixture) save(t *testing.T, tier *segments.Segment, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		b.saving(t, tier, i)
		require.Equal(t, objects.Done, b.table.CopyEnd(fmt.Sprint(i), objects.Client{}, model.CopyObject, &objects.Bin{}))
	}
}

// saving begins to copy an object to the tier.
func (b *fixture) saving(t *testing.T, tier *segments.Segment, i int) {
	t.Helper()
	src, out := b.table.CopySource(fmt.Sprint(i), b.seg.Name)
	require.Equal(t, objects.Done, out)
	target := [][]segments.Extent{{{Seg: tier, Offset: uint64(i), Size: 1}}}
	_, out = b.table.CopyBegin(fmt.Sprint(i), objects.Client{}, model.CopyObject, src.ID, target, b.clock.Now())
	require.Equal(t, objects.Done, out)
}

// keep is an eviction at the watermark.
func keep(bytes uint64, saves int) Request {
	return Request{Need: bytes, Floor: bytes, Saves: saves, Why: history.EvictedAtWatermark}
}

// TestVictimsGoOnceTheyAreSaved: an eviction has as many saved as it needs, and no more however often it is repeated. Those that
// are saved go, and those that are read meanwhile stay.
func TestVictimsGoOnceTheyAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tier := newSavingFixture(t)
		b.put(t, 0, 10)
		require.Equal(t, Result{Saving: 3}, b.Evict(t.Context(), keep(3, -1)))
		require.Equal(t, Result{}, b.Evict(t.Context(), keep(3, -1)))
		b.saving(t, tier, 0)
		time.Sleep(savePause)
		require.Equal(t, Result{}, b.Evict(t.Context(), keep(3, -1)), "also while one is being copied")
		require.Equal(t, Leased{}, b.Leased(t.Context()), "no reader has a lease")
		require.Equal(t, objects.Done, b.table.CopyEnd("0", objects.Client{}, model.CopyObject, &objects.Bin{}))
		b.save(t, tier, 1, 2)
		time.Sleep(savePause)
		require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), keep(3, -1)))
		require.Equal(t, []string{"0", "1"}, b.reclaimed[history.EvictedAtWatermark])

		b.table.Exist("2", objects.Grant{Rank: true})
		time.Sleep(savePause)
		require.Equal(t, Result{Saving: 3}, b.Evict(t.Context(), keep(3, -1)), "3 to 5: 2 was read")
		b.save(t, tier, 2, 6)
		time.Sleep(savePause)
		require.Equal(t, Result{Keys: 3, Bytes: 3}, b.Evict(t.Context(), keep(3, -1)))
		require.Equal(t, []string{"0", "1", "3", "4", "5"}, b.reclaimed[history.EvictedAtWatermark])
	})
}

// TestMemoryDoesNotWaitForTheDisk: what is not saved goes without when a put needs its memory, or when its node takes too long.
func TestMemoryDoesNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSavingFixture(t)
		b.put(t, 0, 10)
		require.Equal(t, Result{Saving: 3}, b.Evict(t.Context(), keep(3, -1)))
		require.Equal(t, Result{Keys: 4, Bytes: 4}, b.Evict(t.Context(), need(4)))
		require.Equal(t, []string{"0", "1", "2", "3"}, b.reclaimed[history.EvictedForPut])
		require.Equal(t, Result{Saving: 2}, b.Evict(t.Context(), keep(2, -1)), "nothing is being saved any more")
		time.Sleep(objects.SavePatience)
		require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), keep(2, -1)))
		require.Equal(t, []string{"4", "5"}, b.reclaimed[history.EvictedAtWatermark])
	})
}

// TestMostSaves: an eviction that may have few objects saved takes the others without.
func TestMostSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSavingFixture(t)
		b.put(t, 0, 10)
		require.Equal(t, Result{Saving: 2, Keys: 3, Bytes: 3}, b.Evict(t.Context(), keep(5, 2)))
		require.Equal(t, []string{"2", "3", "4"}, b.reclaimed[history.EvictedAtWatermark])
	})
}

// TestSavingIsBounded: without a bound of the request, as many objects wait as the deferral takes, and the others stay.
func TestSavingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSavingFixture(t)
		b.put(t, 0, maxDeferred+100)
		res := b.Evict(t.Context(), keep(maxDeferred+50, -1))
		require.Equal(t, Result{Saving: maxDeferred}, res)
		calls := b.lru.ProposeCalls.Load()
		time.Sleep(2 * barrenPause)
		require.Equal(t, Result{}, b.Evict(t.Context(), keep(maxDeferred+50, -1)))
		require.Equal(t, calls, b.lru.ProposeCalls.Load(), "the policy is not asked for what cannot wait")
		require.Equal(t, Result{Keys: 100, Bytes: 100}, b.Evict(t.Context(), need(100)))
	})
}

// TestPinnedObjectsDoNotGoForTheDisk: softly pinned objects stay while others wait to be saved.
func TestPinnedObjectsDoNotGoForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSavingFixture(t)
		b.putAs(t, objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}, 0, 10)
		b.put(t, 10, maxDeferred+2000)
		r := keep(maxDeferred+1000, -1)
		r.Soft = true
		require.Equal(t, Result{Saving: maxDeferred}, b.Evict(t.Context(), r))
		require.Equal(t, Result{}, b.Evict(t.Context(), r))
	})
	b, _ := newSavingFixture(t)
	b.putAs(t, objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}, 0, 10)
	r := keep(4, -1)
	r.Soft = true
	require.Equal(t, Result{Keys: 4, Bytes: 4, Soft: 4}, b.Evict(t.Context(), r), "there are no others")
}

// TestSavingKeepsTheOrder: candidates for which there is no place yet keep theirs in the order of the policy.
func TestSavingKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tier := newSavingFixture(t)
		b.put(t, 0, maxDeferred+8000)
		for i := range 3 {
			b.Evict(t.Context(), keep(maxDeferred+7000, -1))
			b.save(t, tier, 10*i, 10*(i+1))
			time.Sleep(savePause)
		}
		b.Evict(t.Context(), need(maxDeferred+100))
		went := map[string]bool{}
		for _, key := range b.reclaimed[history.EvictedForPut] {
			went[key] = true
		}
		for i := 30; i < maxDeferred+100; i++ {
			require.True(t, went[fmt.Sprint(i)], i)
		}
	})
}

// TestObjectsAreSavedBesideASilentNode: more candidates of an absent node than can wait keep no others from being saved.
func TestObjectsAreSavedBesideASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSavingFixture(t)
		answers := b.seg
		silent, _, err := b.registry.Prepare(model.UUID{Hi: 2}, model.Segment{ID: model.UUID{Lo: 9}, Name: "silent", Base: 9 << 40, Size: 1 << 20, Protocol: "tcp"})
		require.NoError(t, err)
		require.NoError(t, b.alloc.AddSpace(t.Context(), alloc.Space{ID: silent.Space, Size: silent.Size}))
		b.registry.Add(silent)
		b.seg = silent
		b.put(t, 0, maxDeferred+1000)
		b.seg = answers
		b.put(t, maxDeferred+1000, maxDeferred+1100)
		b.registry.SetAbsent(silent, b.clock.Now())
		require.Equal(t, Result{Saving: 5}, b.Evict(t.Context(), keep(5, -1)))
	})
}
