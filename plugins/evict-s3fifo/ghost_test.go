package s3fifo

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

func TestFold(t *testing.T) {
	assert.Zero(t, fold(0), "unknown stays unknown")
	assert.EqualValues(t, 1, fold(5<<29|5), "what is known is never unknown")
	assert.NotEqual(t, fold(7), fold(7<<32|1))
	assert.NotEqual(t, fold(7), fold(7|1<<63), "every bit counts")
	assert.Less(t, fold(math.MaxUint64), uint32(1<<29), "it leaves space for the rest of the state")
}

func TestGhostKeepsTheLatest(t *testing.T) {
	g := newGhost()
	for _, fp := range []uint32{1, 2, 3, 1, 0} {
		g.add(fp)
	}
	require.EqualValues(t, 3, g.set.Len(), "a key is remembered once")
	g.trim(2)
	assert.False(t, g.take(2), "the oldest is forgotten; 1 was added again")
	assert.True(t, g.take(1))
	assert.True(t, g.take(3))
	assert.False(t, g.take(3), "it is taken once")
	assert.False(t, g.take(0))
}

// TestGhostShrinksWithThePool: what is remembered is bounded by what there is, also when
// objects go by removal.
func TestGhostShrinksWithThePool(t *testing.T) {
	var o *order
	p := ranked.New(func(s *ranked.Set[state]) ranked.Order {
		o = newOrder(*DefaultConfig(), s)
		return o
	})
	const n = 100
	for id := evict.ID(1); id <= n; id++ {
		require.NoError(t, p.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: id, Size: 1, Fingerprint: uint64(id)}}))
	}
	got, err := p.Propose(t.Context(), make([]evict.Candidate, 0, n/2), n)
	require.NoError(t, err)
	for _, c := range got {
		require.NoError(t, p.Resolve(t.Context(), []evict.Verdict{{ID: c.ID, Evicted: true}}))
	}
	require.EqualValues(t, 45, o.ghost.set.Len(), "nine tenths of the 51 that there were at the last eviction")
	for id := evict.ID(n/2 + 1); id <= n; id++ {
		require.NoError(t, p.Record(t.Context(), []evict.Event{{Op: evict.Remove, ID: id}}))
	}
	require.Zero(t, o.ghost.set.Len())
}
