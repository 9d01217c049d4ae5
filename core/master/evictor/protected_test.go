package evictor

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
)

// more is so many objects that the deferral cannot hold them all.
const more = maxDeferred + 3000

// However many objects are being read, the evictor finds those behind them that are not.
func TestEvictionGetsPastMoreReadersThanCanBeDeferred(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, more+10)
	b.lease(0, more)
	require.Equal(t, Result{Keys: 5, Bytes: 5}, b.Evict(t.Context(), need(5)))
	require.Equal(t, Result{Keys: 5, Bytes: 5}, b.Evict(t.Context(), need(5)), "and again")
	require.Len(t, b.reclaimed[history.EvictedForPut], 10)
	require.Contains(t, b.reclaimed[history.EvictedForPut], fmt.Sprint(more))
}

// The same for what only lookups protect, behind more readers than can be deferred.
func TestLookedUpObjectsBehindManyReadersCanGo(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, more+10)
	b.lease(0, more)
	until := b.clock.Now().Add(time.Hour)
	for i := more; i < more+10; i++ {
		b.table.Exist(fmt.Sprint(i), objects.Grant{Probe: until})
	}
	require.Equal(t, Result{Keys: 4, Bytes: 4, Probed: 4}, b.Evict(t.Context(), need(4)))
}

// A search that finds everything protected is not repeated at once. Deferred candidates keep their
// order. Skipped ones keep theirs too, except for where it begins.
func TestAFruitlessSearchKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, nil)
		b.put(t, 0, more)
		b.lease(0, more)
		require.Equal(t, Result{}, b.Evict(t.Context(), need(5)))
		calls := b.lru.ProposeCalls.Load()
		require.LessOrEqual(t, calls, int64(2*(more/proposeBatch+maxIdleRounds)), "a bounded search")
		require.Equal(t, Result{}, b.Evict(t.Context(), need(5)))
		require.Equal(t, calls, b.lru.ProposeCalls.Load(), "the evictor does not ask again at once")

		time.Sleep(2 * time.Hour)
		require.Equal(t, Result{Keys: maxDeferred, Bytes: maxDeferred}, b.Evict(t.Context(), need(maxDeferred)))
		require.Equal(t, Result{Keys: 3000, Bytes: 3000}, b.Evict(t.Context(), need(3000)))
		gone := b.reclaimed[history.EvictedForPut]
		turns := 0
		for i := 1; i < len(gone); i++ {
			before, after := number(t, gone[i-1]), number(t, gone[i])
			if after != before+1 {
				require.GreaterOrEqual(t, i, maxDeferred)
				turns++
			}
		}
		require.Equal(t, "0", gone[0])
		require.LessOrEqual(t, turns, 2)
	})
}

func number(t *testing.T, key string) int {
	n, err := strconv.Atoi(key)
	require.NoError(t, err)
	return n
}
