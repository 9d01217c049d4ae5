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

// TestGhostOutlivesAnEmptiedPool: where the capacity is known, the pool can hold what it has held, however much of it is removed. The
// ghost shrinks when the pool does, and tiny objects do not make it grow.
func TestGhostOutlivesAnEmptiedPool(t *testing.T) {
	for _, c := range []struct {
		capacity, lastSize uint64
		want               int
	}{
		{0, 10, 0},         // Unknown: nine tenths of the one object that is left.
		{1000, 10, 50},     // All that were evicted.
		{400, 10, 36},      // 40 objects of 10 bytes fit.
		{1 << 50, 1, 50},   // Bounded by the 100 objects there have been.
		{1000, 1 << 20, 0}, // One object that takes more than there is.
	} {
		var o *order
		p := ranked.New(func(s *ranked.Set[state]) ranked.Order {
			o = newOrder(*DefaultConfig(), s)
			return o
		})
		require.NoError(t, evict.SetCapacity(t.Context(), p, c.capacity))
		const n = 100
		for id := evict.ID(1); id <= n; id++ {
			size := uint64(10)
			if id == n {
				size = c.lastSize
			}
			require.NoError(t, p.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: id, Size: size, Fingerprint: uint64(id)}}))
		}
		got, err := p.Propose(t.Context(), make([]evict.Candidate, 0, n/2), 1<<30)
		require.NoError(t, err)
		for _, c := range got {
			require.NoError(t, p.Resolve(t.Context(), []evict.Verdict{{ID: c.ID, Evicted: true}}))
		}
		for id := evict.ID(n/2 + 1); id < n; id++ {
			require.NoError(t, p.Record(t.Context(), []evict.Event{{Op: evict.Remove, ID: id}}))
		}
		// The last object leaves, and returns as itself.
		_, err = p.Propose(t.Context(), make([]evict.Candidate, 0, 1), 1)
		require.NoError(t, err)
		assert.EqualValues(t, c.want, o.ghost.set.Len(), "capacity %d, last size %d", c.capacity, c.lastSize)
	}
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
