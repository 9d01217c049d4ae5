package prefix

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// TestGhosts compares with a map. No set overflows here, so nothing may be lost or made up.
func TestGhosts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g, want := newGhosts(), map[uint32]uint8{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			key := rapid.Uint32Range(0, 20).Draw(rt, "key") * 0x0CCCCCCD
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0:
				g.fit(rapid.Uint64Range(0, 1<<17).Draw(rt, "objects"))
			case 1, 2:
				uses := rapid.Uint8Range(1, maxUses).Draw(rt, "uses")
				require.Equal(rt, want[key], g.take(key))
				g.add(key, uses)
				want[key] = uses
			default:
				require.Equal(rt, want[key], g.take(key))
				delete(want, key)
			}
		}
		for key, uses := range want {
			require.Equal(rt, uses, g.take(key))
		}
	})
}

// TestGhostsForgetTheOldest of a set that is full.
func TestGhostsForgetTheOldest(t *testing.T) {
	g := newGhosts()
	for key := range uint32(ghostWays + 1) {
		g.add(key, 3)
	}
	assert.Zero(t, g.take(0))
	for key := range uint32(ghostWays) {
		assert.EqualValues(t, 3, g.take(key+1))
	}
}

// TestSamples: a sample that is not used again leaves each bucket once, one that is used
// again leaves none from then on, also when the ring comes round.
func TestSamples(t *testing.T) {
	const end, class, weight, bucket, usedAt = 3 * sampleRing, 3, 2, 12, 100
	s, o := newSamples(), &odds{ages: newAges()}
	low, high := o.ages[bucket], o.ages[bucket+1]
	require.Greater(t, low, uint32(usedAt))
	require.Less(t, high, uint32(sampleRing))
	var want float32
	key := func(born uint32) uint32 { return uint32(mix(uint64(born))) }
	for now := uint32(1); now <= end; now++ {
		s.add(key(now), now, class, weight)
		if born := now - usedAt; now > usedAt && born%3 == 0 {
			require.Equal(t, sample{key: key(born), time: born, class: class, weight: weight}, s.take(key(born)))
			require.Zero(t, s.take(key(born)))
		}
		if born := now - high; now > high && born%3 != 0 {
			want += weight
		}
		s.pass(bucket, now, o)
		require.Equal(t, want, o.passes[class][bucket])
	}
	assert.Zero(t, s.take(key(1)), "the ring holds the newest")
	assert.NotZero(t, s.take(key(end)))
	assert.Zero(t, o.hits[class][bucket])
}

// TestWorth compares the worth of cells with the best of all spans, tried one by one.
func TestWorth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := &odds{ages: newAges()}
		for range rapid.IntRange(0, 12).Draw(rt, "facts") {
			c := rapid.Uint8Range(0, classes-1).Draw(rt, "class")
			b := rapid.IntRange(0, buckets-1).Draw(rt, "bucket")
			p := rapid.Float32Range(0, 1e5).Draw(rt, "passes")
			o.passes[c][b] += p
			o.hits[c][b] += p * rapid.Float32Range(0, 1).Draw(rt, "chance")
		}
		o.weigh()
		require.True(rt, slices.IsSorted(o.order[:]))
		worth := map[int]float32{}
		for _, x := range o.order {
			worth[int(uint32(x))] = math.Float32frombits(uint32(x >> 32))
		}
		require.Len(rt, worth, len(o.order), "a cell is there twice")
		all := o.average()
		c := rapid.IntRange(0, classes-1).Draw(rt, "checked class")
		chances := o.chances(c, &all)
		for b := range buckets {
			require.InEpsilon(rt, o.bestSpan(b, &chances), worth[c*buckets+b], 1e-4)
		}
	})
}

// bestSpan is the worth of a cell by its definition.
func (o *odds) bestSpan(b int, chances *[buckets]float64) (best float64) {
	uses, time, left := 0.0, 0.0, 1.0
	for ; b < buckets; b++ {
		uses += left * chances[b]
		time += left * o.width(b) * (1 - chances[b]/2)
		left *= 1 - chances[b]
		best = max(best, uses/time)
	}
	return best
}

// TestFade: what was learned counts half.
func TestFade(t *testing.T) {
	o := &odds{ages: newAges()}
	o.used(2, 5, 8)
	o.passed(2, 5, 4)
	o.fade()
	assert.EqualValues(t, 4, o.hits[2][5])
	assert.EqualValues(t, 6, o.passes[2][5])
}

// TestAges: every age has its bucket, and an age that a bucket starts with is in it.
func TestAges(t *testing.T) {
	a := newAges()
	for b, first := range a {
		assert.Equal(t, b, a.bucket(first))
		if b > 0 {
			assert.Equal(t, b-1, a.bucket(first-1))
			assert.Greater(t, first, a[b-1])
		}
	}
	assert.Equal(t, buckets-1, a.bucket(math.MaxUint32))
}

// TestCellsAreWeighedForEvictionsAlone gates the cost of a cache that evicts nothing.
func TestCellsAreWeighedForEvictionsAlone(t *testing.T) {
	p := newProbe(t)
	was := p.cells.cellAt
	for id := evict.ID(1); id <= 20*minWeigh; id++ {
		p.record(page(id, 0))
	}
	require.True(t, p.stale)
	require.Equal(t, was, p.cells.cellAt)
	_, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, 1), 1)
	require.NoError(t, err)
	require.False(t, p.stale)
	require.NotEqual(t, was, p.cells.cellAt)
}
