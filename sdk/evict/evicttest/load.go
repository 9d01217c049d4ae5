package evicttest

import (
	"math"
	"sync"
	"sync/atomic"

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
	s.left("ID 0 is no object")

	// Parents that are unknown, the object itself, or a circle.
	s.record(
		evict.Event{Op: evict.Insert, ID: 10, Size: 1, Parent: 999},
		evict.Event{Op: evict.Insert, ID: 11, Size: 1, Parent: 11},
		evict.Event{Op: evict.Insert, ID: 12, Size: 1, Parent: 13},
		evict.Event{Op: evict.Insert, ID: 13, Size: 1, Parent: 12})
	s.left("a parent that makes no sense is ignored", 10, 11, 12, 13)
	s.resolve(evicted(10), evicted(11), evicted(12), evicted(13))
	s.holds(0, 0, 0)

	// Sizes whose sum does not fit 64 bits: neither counts nor proposals go astray.
	enough := func(bytes uint64, limit, want int, why string) {
		if got := s.propose(bytes, limit); len(got) != want {
			s.failf("Propose of %d bytes returns %s, and should return %d: %s", bytes, listed(got, candidateText), want, why)
		}
	}
	s.insert(math.MaxUint64-1, math.MaxUint64, math.MaxUint64)
	enough(math.MaxUint64, 8, 1, "one object of that size is enough")
	enough(math.MaxUint64, 8, 1, "one object of that size is enough")
	s.resolve(evicted(math.MaxUint64-1), evicted(math.MaxUint64))
	s.holds(0, 0, 0)
	s.insert(1, math.MaxUint64-1, math.MaxUint64-1, math.MaxUint64-1)
	enough(math.MaxUint64, 8, 2, "two objects are more than 64 bits can count")
	s.remove(1)
	s.remove(2)
	s.remove(3)
	s.holds(0, 0, 0)

	// Objects without bytes are proposed as well, bounded by the capacity of dst.
	s.insert(1, 0, 0, 0)
	enough(1, 2, 2, "objects of 0 bytes are proposed too")
	enough(1, 2, 1, "objects of 0 bytes are proposed too")
	s.holds(3, 0, 3)
}

// testNumbers uses IDs and sizes beyond 32 bits.
func testNumbers(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	const high = 1 << 32
	s.insert(7, 100)
	s.insert(7+high, 3*high+5)
	s.insert(7+high<<16, 1)
	s.holds(3, 3*high+106, 0)
	s.remove(7 + high)
	s.holds(2, 101, 0)
	s.insert(7+high, 3*high+5)
	s.proposes(3*high+106, 8, evict.Candidate{ID: 7, Size: 100}, evict.Candidate{ID: 7 + high, Size: 3*high + 5}, evict.Candidate{ID: 7 + high<<16, Size: 1})
	s.resolve(evicted(7), spared(7+high), evicted(7+high<<16))
	s.holds(1, 3*high+5, 0)
	s.left("it was retained", 7+high)
}

// masterBatches are how many events and victims a master passes in one call, and what lies just beside powers of two.
var masterBatches = []int{1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024, 1025, 4095, 4096, 4097}

// testBatches sends batches of each length, then more objects than 16 bits can number.
func testBatches(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	for _, n := range masterBatches {
		first := evict.ID(n) << 20
		s.insertMany(first, n, 3)
		s.holds(uint64(n), 3*uint64(n), 0)
		some := s.propose(3*uint64(n/2), n)
		if len(some) != n/2 {
			s.failf("Propose of %d bytes returns %s, and each of the %d objects has 3 bytes", 3*(n/2), count(len(some), "victim"), n)
		}
		s.resolve(verdictsOn(ids(some), func(i int) bool { return i%2 == 0 })...)
		gone := (n/2 + 1) / 2
		s.holds(uint64(n-gone), 3*uint64(n-gone), 0)
		all := s.propose(1<<63, n)
		if len(all) != n-gone {
			s.failf("Propose of all that is ranked returns %s, and %d are ranked", count(len(all), "victim"), n-gone)
		}
		events := make([]evict.Event, n)
		for i := range events {
			events[i] = evict.Event{Op: evict.Remove, ID: first + evict.ID(i)}
		}
		s.record(events...)
		s.holds(0, 0, 0)
	}
	s.manyObjects(70_000)
}

func verdictsOn(ids []evict.ID, gone func(int) bool) []evict.Verdict {
	out := make([]evict.Verdict, len(ids))
	for i, id := range ids {
		out[i] = evict.Verdict{ID: id, Evicted: gone(i)}
	}
	return out
}

// manyObjects inserts n objects in one batch, and proposes all of them in the end.
func (s subject) manyObjects(n int) {
	s.insertMany(1, n, 7)
	s.holds(uint64(n), 7*uint64(n), 0)
	half := ids(s.propose(7*uint64(n)/2, n))
	if len(half) != n/2 {
		s.failf("Propose of %d bytes returns %s, and each of the %d objects has 7 bytes", 7*n/2, count(len(half), "victim"), n)
	}
	verdicts := verdictsOn(half, func(i int) bool { return i%2 == 0 })
	state := make(map[evict.ID]evict.Verdict, n)
	for _, v := range verdicts {
		state[v.ID] = v
	}
	if len(state) != len(half) {
		s.failf("Propose returns %s, and %d of them are different", count(len(half), "victim"), len(state))
	}
	s.resolve(verdicts...)
	s.holds(uint64(n-n/4), 7*uint64(n-n/4), 0)
	rest := s.drain(n)
	if len(rest) != n-n/4 {
		s.failf("Propose of all that is ranked returns %s, and %d are ranked", count(len(rest), "victim"), n-n/4)
	}
	for i, id := range rest {
		switch v, was := state[id]; {
		case id == 0 || uint64(id) > uint64(n):
			s.failf("victim %d is object %d, which was never inserted", i, id)
		case was && v.Evicted:
			s.failf("victim %d is object %d, which was evicted or proposed before", i, id)
		case was && i < n/2:
			s.failf("victim %d is object %d, which was retained: all others come before it", i, id)
		}
		state[id] = evicted(id)
	}
}

// testReplay does what a master does with a policy that has just been started: it inserts all objects, in batches.
func testReplay(t conformance.T, f *subjects) {
	const n, batch = 10_000, 4096
	s := newSubject(t, f)
	s.replayed(n, batch)
	s.holds(n, 5*n, 0)
	if got := s.propose(1<<63, n); len(got) != n {
		s.failf("Propose of all that is ranked returns %s after a replay of %d objects", count(len(got), "victim"), n)
	}
}

// replayed inserts objects of 5 bytes from 1 on in batches.
func (s subject) replayed(n, batch int) {
	for first := 1; first <= n; first += batch {
		s.insertMany(evict.ID(first), min(batch, n-first+1), 5)
	}
}

// testConcurrent lets masters' goroutines loose on one policy. Every object that is
// proposed is held by exactly one of them until it is resolved.
func testConcurrent(t conformance.T, f *subjects) {
	const workers, rounds, batch = 8, 40, 16
	s := newSubject(t, f)
	const objects = workers * rounds * batch
	var held, dead sync.Map
	var gone atomic.Uint64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				first := evict.ID(1 + (w*rounds+r)*batch)
				s.insertMany(first, batch, 1)
				s.access(first)
				cs := s.propose(batch/2, batch)
				verdicts := make([]evict.Verdict, len(cs))
				for i, c := range cs {
					if _, twice := held.LoadOrStore(c.ID, w); twice {
						t.Errorf("object %d is proposed to two callers at once", c.ID)
					}
					if _, evicted := dead.Load(c.ID); evicted {
						t.Errorf("object %d is proposed although another caller has evicted it", c.ID)
					}
					verdicts[i] = evict.Verdict{ID: c.ID, Evicted: i%4 != 0}
				}
				for _, v := range verdicts {
					held.Delete(v.ID)
					if v.Evicted {
						gone.Add(1)
						dead.Store(v.ID, true)
					}
				}
				s.resolve(verdicts...)
				s.stats()
			}
		})
	}
	wg.Wait()
	left := objects - gone.Load()
	s.holds(left, left, 0)
	if got := s.drain(objects); len(got) != int(left) {
		s.failf("Propose of all that is ranked returns %s, and %d are ranked", count(len(got), "victim"), left)
	}
}
