package evictor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
)

// parity makes the odd keys one owner's and the even ones another's.
func parity(key string) string {
	if (key[len(key)-1]-'0')%2 == 1 {
		return "odd"
	}
	return "even"
}

func of(owner string, bytes uint64) Request {
	return Request{Need: bytes, Floor: bytes, Soft: true, Owner: owner, Why: history.EvictedForQuota}
}

// An eviction of one owner's objects neither evicts those of others nor changes their order.
func TestEvictionOfOneOwner(t *testing.T) {
	b := newFixture(t, nil)
	b.table.Own(parity)
	b.put(t, 0, 10)
	require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), of("odd", 2)))
	require.Equal(t, []string{"1", "3"}, b.reclaimed[history.EvictedForQuota])
	require.Equal(t, Result{Keys: 3, Bytes: 3}, b.Evict(t.Context(), of("odd", 9)))
	require.Equal(t, Result{}, b.Evict(t.Context(), of("odd", 9)))
	b.Evict(t.Context(), need(3))
	require.Equal(t, []string{"0", "2", "4"}, b.reclaimed[history.EvictedForPut], "in the policy's order")
	require.NoError(t, b.Drain(t.Context()))
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2), st.Objects, "the policy heard of what went")
}

// However much others have, and however it is protected, it is neither asked for nor deferred.
func TestAnOwnerBehindManyOthers(t *testing.T) {
	b := newFixture(t, nil)
	b.table.Own(func(key string) string {
		if len(key) < 6 {
			return "others"
		}
		return "own"
	})
	b.put(t, 0, maxDeferred+10)
	b.put(t, 100_000, 100_003)
	require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), of("own", 2)))
	require.Equal(t, []string{"100000", "100001"}, b.reclaimed[history.EvictedForQuota])
	require.Zero(t, b.lru.ProposeCalls.Load())
	require.Empty(t, b.deferred.queue)
	require.Equal(t, Result{Keys: 1, Bytes: 1}, b.Evict(t.Context(), of("own", 2)), "and no more than there is")
}

// The rules are those of every eviction: leases hold, lookups and pins give way in turn.
func TestTheRulesHoldForOneOwner(t *testing.T) {
	b := newFixture(t, nil)
	b.table.Own(parity)
	pin := objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}
	for i, set := range []objects.Settings{pin, {}, {}, {}, {Group: "g"}, {Group: "g"}} {
		b.putAs(t, set, 2*i+1, 2*i+2)
	}
	b.table.Exist("3", objects.Grant{Probe: b.clock.Now().Add(time.Hour)})
	b.lease(5, 6)
	all := of("odd", 100)
	require.Equal(t, Result{Keys: 1, Bytes: 1}, b.Evict(t.Context(), of("odd", 1)))
	require.Equal(t, []string{"7"}, b.reclaimed[history.EvictedForQuota])
	all.Soft = false
	require.Equal(t, Result{Keys: 3, Bytes: 3, Probed: 1}, b.Evict(t.Context(), all))
	require.Equal(t, []string{"11"}, b.reclaimed[history.EvictedWithGroup])
	all.Soft = true
	require.Equal(t, Result{Keys: 1, Bytes: 1, Soft: 1}, b.Evict(t.Context(), all))
	require.Len(t, b.alloc.Live(), 1, "the leased one")
}

// Of an owner with more than a sample the oldest go, nearly.
func TestALargeOwnerLosesWhatIsOld(t *testing.T) {
	b := newFixture(t, nil)
	const n = 20 * sampleSize
	b.table.Own(func(string) string { return "all" })
	b.put(t, 0, n)
	require.Equal(t, n/10, b.Evict(t.Context(), of("all", n/10)).Keys)
	young := 0
	for _, key := range b.reclaimed[history.EvictedForQuota] {
		var i int
		_, err := fmt.Sscan(key, &i)
		require.NoError(t, err)
		if i >= n/2 {
			young++
		}
	}
	require.Zero(t, young, "none of the younger half")
}

// The search for objects that may be evicted ends even if there are none.
func TestAnOwnerWhoseObjectsAreAllRead(t *testing.T) {
	b := newFixture(t, nil)
	b.table.Own(func(string) string { return "all" })
	b.put(t, 0, 2*sampleSize)
	b.lease(0, 2*sampleSize)
	require.Equal(t, Result{}, b.Evict(t.Context(), of("all", 1)))
}

// One look at what an owner has serves many evictions, and takes nothing that was used
// since.
func TestASampleServesManyEvictions(t *testing.T) {
	b := newFixture(t, nil)
	b.table.Own(parity)
	b.put(t, 0, 10)
	require.Equal(t, 1, b.Evict(t.Context(), of("odd", 1)).Keys)
	require.Len(t, b.samples["odd"].ranks, 4)
	b.table.Exist("3", objects.Grant{Rank: true})
	require.Equal(t, 2, b.Evict(t.Context(), of("odd", 2)).Keys)
	require.Equal(t, []string{"1", "5", "7"}, b.reclaimed[history.EvictedForQuota])
	require.Len(t, b.samples["odd"].ranks, 1)
	require.Equal(t, 2, b.Evict(t.Context(), of("odd", 9)).Keys)
	require.Equal(t, []string{"1", "5", "7", "9", "3"}, b.reclaimed[history.EvictedForQuota])
	require.Empty(t, b.samples)

	for i := range 3 * maxSamples {
		b.keep(fmt.Sprint(i), []objects.Rank{{}}, 1)
	}
	require.LessOrEqual(t, len(b.samples), maxSamples)
}

// One look for softly pinned objects serves many evictions.
func TestPinnedObjectsAreLookedForOnce(t *testing.T) {
	b := newFixture(t, nil)
	pin := func(ttl time.Duration, from, to int) {
		b.putAs(t, objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: ttl}, from, to)
	}
	pin(time.Hour, 0, 4)
	pin(1, 4, 5)
	pin(time.Hour, 5, 6)
	for i := range 6 { // leases that are long over
		b.table.Read(fmt.Sprint(i), objects.Grant{Lease: lease.Instant(2 + i)}, nil)
	}
	require.Equal(t, Result{Keys: 1, Bytes: 1, Soft: 1}, b.Evict(t.Context(), need(1)))
	require.Len(t, b.pins.queue, 5)
	b.pins.next = b.clock.Now().Add(time.Hour)
	pin(time.Hour, 7, 8)
	b.lease(1, 2)
	b.table.Remove("2", b.clock.Now(), true, &objects.Bin{})
	require.Equal(t, 1, b.table.Unpin(b.clock.Now()))
	require.NoError(t, b.Drain(t.Context()))
	require.Equal(t, Result{Keys: 1, Bytes: 1, Soft: 0}, b.Evict(t.Context(), need(1)), "the policy knows 4 now")
	require.Equal(t, Result{Keys: 2, Bytes: 2, Soft: 2}, b.Evict(t.Context(), need(9)), "not 1, which is read, and not 7 yet")
	require.Equal(t, []string{"0", "4", "3", "5"}, b.reclaimed[history.EvictedForPut])
	b.pins.next = 0
	require.Equal(t, Result{Keys: 1, Bytes: 1, Soft: 1}, b.Evict(t.Context(), need(9)))
}

// An object that was unpinned after the look is the policy's by then, and it hears of its
// end.
func TestAPinThatEndedAfterTheLook(t *testing.T) {
	b := newFixture(t, nil)
	b.putAs(t, objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: 1}, 0, 2)
	require.Equal(t, 1, b.Evict(t.Context(), need(1)).Soft)
	b.pins.next = b.clock.Now().Add(time.Hour)
	b.table.Unpin(b.clock.Now())
	b.table.Exist("1", objects.Grant{Probe: b.clock.Now().Add(time.Hour)})
	b.turn <- struct{}{}
	var res Result
	r := need(1)
	b.evictPinned(t.Context(), &r, &res)
	<-b.turn
	require.Equal(t, 1, res.Keys)
	require.NoError(t, b.Drain(t.Context()))
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, st.Objects)
}
