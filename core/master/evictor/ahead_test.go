package evictor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// counting is a policy that counts what it proposes.
type counting struct {
	*mastertest.LRU
	proposed int
}

func (c *counting) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	victims, err := c.LRU.Propose(ctx, dst, bytes)
	c.proposed += len(victims)
	return victims, err
}

// newAheadFixture is a fixture whose evictor may have ahead candidates ready.
func newAheadFixture(t *testing.T, ahead uint64) (*fixture, *counting) {
	p := &counting{LRU: mastertest.NewLRU()}
	b := newFixture(t, p)
	b.capacity.Store(ahead * aheadShare)
	return b, p
}

// Evictions share the work to pass objects that were read together, and evict the others in order.
func TestNoEvictionPassesALongRunOfLeasedObjects(t *testing.T) {
	b, p := newAheadFixture(t, 500)
	b.put(t, 0, 5000)
	b.lease(1000, 3000)
	for i := range 200 {
		p.proposed = 0
		require.Equal(t, Result{Keys: 10, Bytes: 10}, b.Evict(t.Context(), need(10)))
		require.LessOrEqual(t, p.proposed, 10*(1+aheadTimes), "eviction %d", i)
		require.LessOrEqual(t, b.ready.bytes, uint64(500))
	}
	for i, key := range b.reclaimed[history.EvictedForPut] {
		require.Equal(t, i+i/1000*2000, number(t, key))
	}
	require.Equal(t, 2000, b.Leased(t.Context()).Keys)
}

// A ready candidate that is used stays, at the place that its use deserves. The evictor forgets one that was removed.
func TestReadyCandidatesThatAreUsedMeanwhile(t *testing.T) {
	b, p := newAheadFixture(t, 8)
	b.put(t, 0, 20)
	require.Equal(t, 1, b.Evict(t.Context(), need(1)).Keys)
	require.EqualValues(t, 7, b.ready.bytes, "1 to 7")

	b.table.Exist("1", objects.Grant{Rank: true})
	b.table.Exist("2", objects.Grant{Lease: b.clock.Now().Add(time.Hour)})
	require.Equal(t, objects.Done, b.table.Remove("3", b.clock.Now(), true, &objects.Bin{}))
	require.Equal(t, Result{Keys: 2, Bytes: 2}, b.Evict(t.Context(), need(2)))
	require.Equal(t, []string{"0", "4", "5"}, b.reclaimed[history.EvictedForPut])
	require.Equal(t, 1, b.Leased(t.Context()).Keys, "a leased one waits for its lease")
	require.Equal(t, Result{Keys: 15, Bytes: 15}, b.Evict(t.Context(), need(100)))
	gone := b.reclaimed[history.EvictedForPut]
	require.Equal(t, "1", gone[len(gone)-1])
	require.Zero(t, b.ready.bytes)
	st, err := p.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, evict.Stats{Objects: 1, Bytes: 1, Proposed: 1}, st)
}

// An eviction asks the policy when all candidates that were ready have been used.
func TestAllReadyCandidatesAreUsedMeanwhile(t *testing.T) {
	b, _ := newAheadFixture(t, 1<<20)
	const n = 2 * maxReady
	b.put(t, 0, n)
	for b.ready.bytes <= maxReady-proposeBatch {
		require.Equal(t, 500, b.Evict(t.Context(), need(500)).Keys)
	}
	for i := range n {
		b.table.Exist(fmt.Sprint(i), objects.Grant{Rank: true})
	}
	require.Equal(t, 1, b.Evict(t.Context(), need(1)).Keys)
}

// A policy that was started again ranks what was ready.
func TestAResyncForgetsReadyCandidates(t *testing.T) {
	b, _ := newAheadFixture(t, 8)
	b.put(t, 0, 20)
	require.Equal(t, 1, b.Evict(t.Context(), need(1)).Keys)
	b.table.Exist("1", objects.Grant{Rank: true})
	next := mastertest.NewLRU()
	require.NoError(t, b.Replay(t.Context(), next))
	b.policy = next
	require.Equal(t, 2, b.Evict(t.Context(), need(2)).Keys)
	require.Equal(t, []string{"0", "2", "3"}, b.reclaimed[history.EvictedForPut])
}

func TestReadyCandidatesAreBounded(t *testing.T) {
	var r ready
	for i := range evict.ID(3 * maxReady) {
		require.Equal(t, i < maxReady, r.add(evict.Candidate{ID: i + 1, Size: 2}))
	}
	require.True(t, r.drop(2))
	require.False(t, r.drop(2))
	for _, want := range []evict.ID{1, 3, 4} {
		c, ok := r.next()
		require.True(t, ok)
		require.Equal(t, want, c.ID)
	}
	require.True(t, r.add(evict.Candidate{ID: 2, Size: 2}))
	require.EqualValues(t, 2*(maxReady-3), r.bytes)
	var last evict.Candidate
	for n := 0; ; n++ {
		c, ok := r.next()
		if !ok {
			require.Equal(t, maxReady-3, n, fmt.Sprint(last))
			break
		}
		last = c
	}
	require.Equal(t, evict.Candidate{ID: 2, Size: 2}, last)
	require.Zero(t, r.bytes)
	require.Empty(t, r.at)
}

// Whatever happens between evictions that look ahead, they take as much as is free, nothing that is leased, and the policy knows
// what is there.
func TestLookingAheadKeepsTheAccounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, p := newAheadFixture(t, 40)
		next, leased := 0, map[string]bool{}
		there := func(key string) bool { _, ok := b.table.Look(key); return ok }
		free := func() (n int) {
			for i := range next {
				if key := fmt.Sprint(i); there(key) && !leased[key] {
					n++
				}
			}
			return n
		}
		key := rapid.Custom(func(rt *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, max(next-1, 0)).Draw(rt, "key")) })
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				n := rapid.IntRange(1, 20).Draw(rt, "objects")
				b.put(t, next, next+n)
				next += n
			},
			"read": func(rt *rapid.T) { b.table.Exist(key.Draw(rt, "read"), objects.Grant{Rank: true}) },
			"lease": func(rt *rapid.T) {
				key := key.Draw(rt, "leased")
				b.table.Exist(key, objects.Grant{Lease: b.clock.Now().Add(time.Hour)})
				leased[key] = there(key)
			},
			"remove": func(rt *rapid.T) {
				b.table.Remove(key.Draw(rt, "removed"), b.clock.Now(), true, &objects.Bin{})
			},
			"evict": func(rt *rapid.T) {
				n, most := rapid.IntRange(1, 12).Draw(rt, "bytes"), free()
				require.Equal(rt, min(n, most), b.Evict(t.Context(), need(uint64(n))).Keys)
			},
			"": func(rt *rapid.T) {
				require.NoError(rt, b.Drain(t.Context()))
				st, err := p.Stats(t.Context())
				require.NoError(rt, err)
				require.EqualValues(rt, b.table.Readable(), st.Objects)
				require.EqualValues(rt, len(b.ready.at)+len(b.deferred.valid), st.Proposed)
				for key, is := range leased {
					require.False(rt, is && !there(key) && slices.Contains(b.reclaimed[history.EvictedForPut], key))
				}
			},
		})
	})
}
