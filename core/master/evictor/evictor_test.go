package evictor

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/master/space"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// fixture is an evictor over a table with objects of one byte each.
type fixture struct {
	*Evictor
	table    *objects.Table
	lru      *mastertest.LRU
	seg      *segments.Segment
	alloc    *mastertest.Alloc
	registry *segments.Registry // nil for none

	capacity  atomic.Uint64
	reclaimed map[history.Reason][]string
}

func newFixture(t testing.TB, policy evict.Policy) *fixture {
	b := &fixture{table: objects.New(), alloc: mastertest.NewAlloc(), lru: mastertest.NewLRU()}
	if policy == nil {
		policy = b.lru
	}
	b.seg = &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 20}, Space: 1}
	require.NoError(t, b.alloc.AddSpace(t.Context(), alloc.Space{ID: 1, Size: 1 << 20}))
	log := slog.New(slog.DiscardHandler)
	b.Evictor = New(policy, b.capacity.Load, b.table, reclaimer{space.New(b.alloc, log), b}, lease.NewClock(), log)
	b.reclaimed = map[history.Reason][]string{}
	return b
}

// This type frees the evicted objects and remembers why each went.
type reclaimer struct {
	*space.Pool
	b *fixture
}

func (g reclaimer) Reclaim(ctx context.Context, bin *objects.Bin, why history.Reason) {
	for o, extents := range bin.Each {
		g.b.reclaimed[why] = append(g.b.reclaimed[why], o.Key)
		g.Free(ctx, extents)
	}
}

// need is an eviction as a put asks for it.
func need(bytes uint64) Request {
	return Request{Need: bytes, Floor: bytes, Soft: true, Why: history.EvictedForPut}
}

func (b *fixture) put(t *testing.T, from, to int) { b.putAs(t, objects.Settings{}, from, to) }

func (b *fixture) putAs(t *testing.T, set objects.Settings, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		key := fmt.Sprint(i)
		x := segments.Extent{Seg: b.seg, Offset: uint64(i), Size: 1}
		_, err := b.alloc.Reserve(t.Context(), []alloc.Extent{x.Alloc()})
		require.NoError(t, err)
		n := objects.NewObject{Key: key, Size: 1, Copies: [][]segments.Extent{{x}}, Settings: set}
		_, out := b.table.Put(&n, 1, time.Minute, nil, &objects.Bin{})
		require.Equal(t, objects.Done, out)
		_, _, out = b.table.Finish(key, 0, objects.Client{}, model.Checksum{}, 1, 0)
		require.Equal(t, objects.Done, out)
	}
}

func (b *fixture) lease(from, to int) {
	until := b.clock.Now().Add(time.Hour)
	for i := from; i < to; i++ {
		b.table.Exist(fmt.Sprint(i), objects.Grant{Lease: until})
	}
}

func TestEvictionFreesAtLeastWhatWasAskedFor(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 10)
	res := b.Evict(t.Context(), need(3))
	require.Equal(t, Result{Keys: 3, Bytes: 3}, res)
	require.Len(t, b.alloc.Live(), 7)
	require.Equal(t, Result{Keys: 7, Bytes: 7}, b.Evict(t.Context(), need(1000)), "no more than there is")
	require.Equal(t, Result{}, b.Evict(t.Context(), need(1)))
}

func TestDeferredCandidatesAreNotProposedAgain(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 100)
	b.lease(0, 100)
	require.Equal(t, Result{}, b.Evict(t.Context(), need(50)))
	l := b.Leased(t.Context())
	require.Equal(t, 100, l.Keys)
	require.Equal(t, uint64(100), l.Bytes)
	require.Positive(t, l.FirstEnd)
	calls := b.lru.ProposeCalls.Load()
	b.Evict(t.Context(), need(50))
	require.Equal(t, calls+1, b.lru.ProposeCalls.Load(), "it has nothing left to propose")

	b.table.Exist("7", objects.Grant{Rank: true})
	require.NoError(t, b.Drain(t.Context()))
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(99), st.Proposed, "an object that is read is skipped")
	b.table.Remove("8", b.clock.Now(), true, &objects.Bin{})
	require.NoError(t, b.Drain(t.Context()))
	require.Equal(t, 98, b.Leased(t.Context()).Keys)
}

func TestDeferralIsBounded(t *testing.T) {
	p := newDeferral()
	for i := range evict.ID(maxDeferred) {
		require.True(t, p.add(candidate{Candidate: evict.Candidate{ID: i + 1, Size: 1}, until: 10}))
	}
	require.False(t, p.add(candidate{Candidate: evict.Candidate{ID: maxDeferred + 1, Size: 1}, until: 10}))
	require.True(t, p.drop(5))
	require.False(t, p.drop(5))
	require.True(t, p.add(candidate{Candidate: evict.Candidate{ID: 5, Size: 1}, until: 20}), "space again")
	require.Equal(t, maxDeferred, p.leased(0).Keys)
	require.Equal(t, 1, p.leased(10).Keys)
	var order []evict.ID
	p.retry(func(c candidate) bool { return c.until <= 10 }, func(c candidate) (candidate, bool) {
		order = append(order, c.ID)
		return c, false
	}, nil)
	require.Len(t, order, maxDeferred-1)
	require.Equal(t, []evict.ID{1, 2, 3, 4, 6}, order[:5], "in order, and 5 lost its place")
	require.False(t, p.due(19))
	require.True(t, p.due(20))
}

// TestRetryEndsWhenThereIsEnough: the candidates behind the last one that was tried keep their places and instants.
func TestRetryEndsWhenThereIsEnough(t *testing.T) {
	p := newDeferral()
	for i := range evict.ID(6) {
		p.add(candidate{Candidate: evict.Candidate{ID: i + 1, Size: 1}, until: 10 * (7 - lease.Instant(i))})
	}
	p.drop(2)
	p.drop(5)
	var order []evict.ID
	take := func(most int) []evict.ID {
		order = nil
		p.retry(func(candidate) bool { return true }, func(c candidate) (candidate, bool) {
			order = append(order, c.ID)
			return c, false
		}, func() bool { return len(order) == most })
		return order
	}
	require.Equal(t, []evict.ID{1, 3}, take(2))
	require.Len(t, p.valid, 2)
	require.False(t, p.due(19))
	require.True(t, p.due(20), "6 is due")
	require.Equal(t, []evict.ID{4, 6}, take(9))
	require.Empty(t, p.valid)
	require.False(t, p.due(1000))
}

// ghosts proposes objects that do not exist, forever.
type ghosts struct{ *mastertest.LRU }

func (g ghosts) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	g.ProposeCalls.Add(1)
	return append(dst, evict.Candidate{ID: 1 << 60, Size: 1}, evict.Candidate{}), nil
}

func TestPolicyThatProposesNonsense(t *testing.T) {
	g := ghosts{mastertest.NewLRU()}
	b := newFixture(t, g)
	b.put(t, 0, 5)
	require.Equal(t, Result{}, b.Evict(t.Context(), need(3)))
	require.Equal(t, int64(maxIdleRounds), g.ProposeCalls.Load())
}

func TestWaitingForOthersIsBoundedByTheContext(t *testing.T) {
	b := newFixture(t, nil)
	b.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Evict(ctx, need(1)).Err, context.Canceled)
	require.ErrorIs(t, b.Drain(ctx), context.Canceled)
	require.ErrorIs(t, b.Replay(ctx, b.lru), context.Canceled)
	<-b.turn
}

// With the deferral full, a candidate is refused without a walk through all that are deferred:
// an eviction brings thousands of them.
func TestFullDeferralRefusesAtOnce(t *testing.T) {
	p := newDeferral()
	for i := range evict.ID(maxDeferred) {
		require.True(t, p.add(candidate{Candidate: evict.Candidate{ID: i + 1, Size: 1}, until: 10}))
	}
	require.True(t, p.drop(1))
	require.True(t, p.add(candidate{Candidate: evict.Candidate{ID: 1, Size: 1}, until: 20}), "one place is void, and does not count")
	require.Equal(t, maxDeferred+1, len(p.queue))
	require.False(t, p.add(candidate{Candidate: evict.Candidate{ID: maxDeferred + 1, Size: 1}, until: 10}))
	require.Equal(t, maxDeferred+1, len(p.queue), "nothing was walked through")
	for i := range 4 * maxDeferred {
		id := evict.ID(i%maxDeferred) + 1
		require.True(t, p.drop(id))
		require.True(t, p.add(candidate{Candidate: evict.Candidate{ID: id, Size: 1}, until: 30}))
		require.LessOrEqual(t, len(p.queue), 2*maxDeferred)
	}
	require.Equal(t, maxDeferred, p.leased(0).Keys)
}

// What only a lookup protects goes when the floor is not reached otherwise, and not before.
func TestLookupsDoNotStarveEviction(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 10)
	until := b.clock.Now().Add(time.Hour)
	for i := range 8 {
		b.table.Exist(fmt.Sprint(i), objects.Grant{Probe: until})
	}
	b.lease(0, 2)
	require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), Request{Need: 5, Floor: 2}), "8 and 9 are free")
	require.Equal(t, Result{Keys: 3, Bytes: 3, Probed: 3}, b.Evict(t.Context(), Request{Need: 5, Floor: 3}))
	require.Equal(t, Result{Keys: 3, Bytes: 3, Probed: 3}, b.Evict(t.Context(), need(100)))
	require.Equal(t, 2, b.Leased(t.Context()).Keys, "leased ones stay")
}

// Softly pinned objects go last, those read longest ago first, and only where allowed.
func TestSoftPinsGoLast(t *testing.T) {
	b := newFixture(t, nil)
	b.putAs(t, objects.Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}, 0, 4)
	b.put(t, 4, 6)
	for i, key := range []string{"1", "2", "3", "0"} { // leases that are long over
		b.table.Read(key, objects.Grant{Lease: lease.Instant(2 + i)}, nil)
	}
	require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), Request{Need: 4, Floor: 4}))
	require.Equal(t, Result{Keys: 2, Bytes: 2, Soft: 2}, b.Evict(t.Context(), need(2)))
	require.Equal(t, []string{"1", "2"}, b.reclaimed[history.EvictedForPut])
	require.Equal(t, Result{Keys: 2, Bytes: 2, Soft: 2}, b.Evict(t.Context(), need(9)))
	require.Empty(t, b.alloc.Live())
}

func TestGroupsGoTogether(t *testing.T) {
	b := newFixture(t, nil)
	b.putAs(t, objects.Settings{Group: "g"}, 0, 3)
	b.put(t, 3, 6)
	require.Equal(t, Result{Keys: 3, Bytes: 3}, b.Evict(t.Context(), need(1)))
	require.Equal(t, []string{"0"}, b.reclaimed[history.EvictedForPut])
	require.ElementsMatch(t, []string{"1", "2"}, b.reclaimed[history.EvictedWithGroup])
	require.Equal(t, Result{Keys: 3, Bytes: 3}, b.Evict(t.Context(), need(9)))
	require.NoError(t, b.Drain(t.Context()))
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, st.Objects, "the policy forgot them")
}

func TestEvictionWaitsForACopyInProgress(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 2)
	src, _ := b.table.CopySource("0", "")
	_, out := b.table.CopyBegin("0", objects.Client{}, model.CopyObject, src.ID, nil, 1)
	require.Equal(t, objects.Done, out)
	require.Equal(t, Result{Keys: 1, Bytes: 1}, b.Evict(t.Context(), need(2)))
	require.Equal(t, []string{"1"}, b.reclaimed[history.EvictedForPut])
}

// hangUp is a policy that fails once its caller has gone, as one in another process does.
type hangUp struct {
	*mastertest.LRU
	hang func()
}

func (h hangUp) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	h.hang()
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	return h.LRU.Propose(ctx, dst, bytes)
}

func TestACallerWhoHangsUpDoesNotFailThePolicy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newFixture(t, nil)
	b.policy = hangUp{b.lru, cancel}
	b.put(t, 0, 4)
	got := b.Evict(ctx, need(2))
	require.NoError(t, got.Err)
	require.Equal(t, 2, got.Keys)
	require.False(t, b.stale)
}

// Were its members listed anew for each of them, a large group would stop the master.
func TestALargeGroupIsListedOnce(t *testing.T) {
	const members = 2000
	b := newFixture(t, nil)
	b.putAs(t, objects.Settings{Group: "g"}, 0, members)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Equal(t, members, b.Evict(t.Context(), need(1)).Keys)
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/members, uint64(8*members), "bytes a member")
}
