package evicttest

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// testHostile feeds what a correct master never sends; a policy ignores it.
func testHostile(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	s.record()
	s.resolve()
	s.record(evict.Event{Op: evict.Insert, ID: 0, Size: 5}, evict.Event{Op: evict.Access}, evict.Event{Op: evict.Remove})
	s.holds(0, 0, 0)
	assert.Empty(t, s.drain(4), "no object came of ID 0")

	// Parents that are unknown, the object itself, or a circle.
	s.record(
		evict.Event{Op: evict.Insert, ID: 10, Size: 1, Parent: 999},
		evict.Event{Op: evict.Insert, ID: 11, Size: 1, Parent: 11},
		evict.Event{Op: evict.Insert, ID: 12, Size: 1, Parent: 13},
		evict.Event{Op: evict.Insert, ID: 13, Size: 1, Parent: 12})
	assert.ElementsMatch(t, []evict.ID{10, 11, 12, 13}, s.drain(8))
	s.resolve(evicted(10), evicted(11), evicted(12), evicted(13))
	s.holds(0, 0, 0)

	// Sizes whose sum does not fit 64 bits: neither counts nor proposals go astray.
	s.insert(math.MaxUint64-1, math.MaxUint64, math.MaxUint64)
	assert.Len(t, s.propose(math.MaxUint64, 8), 1, "one object of that size is enough")
	assert.Len(t, s.propose(math.MaxUint64, 8), 1)
	s.resolve(evicted(math.MaxUint64-1), evicted(math.MaxUint64))
	s.holds(0, 0, 0)
	s.insert(1, math.MaxUint64-1, math.MaxUint64-1, math.MaxUint64-1)
	assert.Len(t, s.propose(math.MaxUint64, 8), 2, "two objects are more than 64 bits can count")
	s.remove(1)
	s.remove(2)
	s.remove(3)
	s.holds(0, 0, 0)

	// Objects without bytes are proposed as well, bounded by the capacity of dst.
	s.insert(1, 0, 0, 0)
	assert.Len(t, s.propose(1, 2), 2)
	assert.Len(t, s.propose(1, 2), 1)
	s.holds(3, 0, 3)
}

// testBatches sends batches of thousands.
func testBatches(t conformance.T, f *subjects) {
	const n = 20_000
	s := newSubject(t, f)
	sizes := make([]uint64, n)
	for i := range sizes {
		sizes[i] = 7
	}
	s.insert(1, sizes...)
	s.holds(n, 7*n, 0)
	half := s.propose(7*n/2, n)
	require.Len(t, half, n/2)
	verdicts := make([]evict.Verdict, len(half))
	seen := make(map[evict.ID]bool, n)
	for i, c := range half {
		verdicts[i] = evict.Verdict{ID: c.ID, Evicted: i%2 == 0}
		seen[c.ID] = i%2 == 0
	}
	s.resolve(verdicts...)
	s.holds(n-n/4, 7*(n-n/4), 0)
	rest := s.drain(n)
	require.Len(t, rest, n-n/4, "everything that is ranked is proposed in the end")
	for i, id := range rest {
		gone, was := seen[id]
		require.False(t, gone, "object %d was evicted or proposed before", id)
		if was {
			require.GreaterOrEqual(t, i, n/2, "spared object %d is proposed before others", id)
		}
		seen[id] = true
	}
}

// testConcurrent lets masters' goroutines loose on one policy. Every object that is
// proposed is held by exactly one of them until it is resolved.
func testConcurrent(t conformance.T, f *subjects) {
	const workers, rounds, batch = 8, 40, 16
	s := newSubject(t, f)
	var held sync.Map
	var gone atomic.Uint64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				sizes := make([]uint64, batch)
				for i := range sizes {
					sizes[i] = 1
				}
				first := evict.ID(1 + (w*rounds+r)*batch)
				s.insert(first, sizes...)
				s.access(first)
				cs := s.propose(batch/2, batch)
				verdicts := make([]evict.Verdict, len(cs))
				for i, c := range cs {
					if _, twice := held.LoadOrStore(c.ID, w); twice {
						t.Errorf("object %d is proposed to two callers at once", c.ID)
					}
					verdicts[i] = evict.Verdict{ID: c.ID, Evicted: i%4 != 0}
				}
				for _, v := range verdicts {
					held.Delete(v.ID)
					if v.Evicted {
						gone.Add(1)
					}
				}
				s.resolve(verdicts...)
				s.stats()
			}
		})
	}
	wg.Wait()
	left := workers*rounds*batch - gone.Load()
	s.holds(left, left, 0)
	assert.Len(t, s.drain(workers*rounds*batch), int(left))
}
