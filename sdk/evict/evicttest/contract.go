package evicttest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// recordRules are what Record, Propose and Stats promise of events.
var recordRules = map[string]func(s subject){
	"a new policy is empty": func(s subject) {
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"insert makes known": func(s subject) {
		s.insert(1, 10, 20)
		s.holds(2, 30, 0)
		s.proposes(30, 4, evict.Candidate{ID: 1, Size: 10}, evict.Candidate{ID: 2, Size: 20})
	},
	"insert of a known object is an access": func(s subject) {
		s.insert(1, 10)
		s.insert(1, 99)
		s.holds(1, 10, 0)
		s.proposes(1, 4, evict.Candidate{ID: 1, Size: 10})
		s.insert(1, 99)
		s.holds(1, 10, 1)
		s.left("object 1 is proposed, and has no verdict yet")
	},
	"access to an unknown object is ignored": func(s subject) {
		s.access(7)
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"access to a proposed object leaves it proposed": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.access(1)
		s.holds(1, 10, 1)
		s.left("object 1 is proposed, and has no verdict yet")
		s.resolve(spared(1))
		s.left("object 1 is the only one that is ranked", 1)
	},
	"an accessed and evicted object is gone": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.access(1)
		s.resolve(evicted(1))
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"remove of an unknown object is ignored": func(s subject) {
		s.insert(1, 10)
		s.remove(2)
		s.holds(1, 10, 0)
	},
	"remove forgets a ranked object": func(s subject) {
		s.insert(1, 10, 20)
		s.remove(1)
		s.holds(1, 20, 0)
		s.left("object 2 is the only one that is ranked", 2)
	},
	"remove forgets a proposed object": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.remove(1)
		s.holds(0, 0, 0)
		s.resolve(spared(1))
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"a removed object can come back": func(s subject) {
		s.insert(1, 10)
		s.remove(1)
		s.insert(1, 25)
		s.holds(1, 25, 0)
		s.proposes(1, 4, evict.Candidate{ID: 1, Size: 25})
	},
	"objects with one fingerprint are two": func(s subject) {
		s.record(
			evict.Event{Op: evict.Insert, ID: 1, Size: 10, Fingerprint: 77},
			evict.Event{Op: evict.Insert, ID: 2, Size: 20, Fingerprint: 77})
		s.holds(2, 30, 0)
		s.remove(1)
		s.holds(1, 20, 0)
		s.left("only object 1 was removed", 2)
	},
	"remove of a parent leaves its children": func(s subject) {
		s.record(
			evict.Event{Op: evict.Insert, ID: 1, Size: 10},
			evict.Event{Op: evict.Insert, ID: 2, Size: 20, Parent: 1},
			evict.Event{Op: evict.Insert, ID: 3, Size: 40, Parent: 2},
			evict.Event{Op: evict.Remove, ID: 1})
		s.holds(2, 60, 0)
		s.left("only object 1 was removed", 2, 3)
	},
	"events of one call are in order": func(s subject) {
		s.record(
			evict.Event{Op: evict.Insert, ID: 1, Size: 1},
			evict.Event{Op: evict.Remove, ID: 1},
			evict.Event{Op: evict.Insert, ID: 1, Size: 2},
			evict.Event{Op: evict.Remove, ID: 2},
			evict.Event{Op: evict.Insert, ID: 2, Size: 4})
		s.holds(2, 6, 0)
	},
}

func testPropose(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	s.insert(1, 10, 10, 10, 10, 10)
	takes := func(bytes uint64, limit, want int, why string) {
		if got := s.propose(bytes, limit); len(got) != want {
			s.failf("Propose of %d bytes, at most %s, returns %s, and should return %d: %s", bytes, count(limit, "victim"), listed(got, candidateText), want, why)
		}
	}
	takes(0, 8, 0, "no bytes are wanted")
	takes(1, 0, 0, "dst has no capacity")
	got, err := s.p.Propose(context.Background(), nil, 100)
	require.NoError(t, err)
	require.Empty(t, got, "a nil dst has no capacity")

	takes(10, 8, 1, "an object has 10 bytes")
	takes(11, 8, 2, "an object has 10 bytes")
	s.holds(5, 50, 3)

	mark := evict.Candidate{ID: 1 << 60, Size: 3}
	got, err = s.p.Propose(context.Background(), append(make([]evict.Candidate, 0, 2), mark), 1000)
	require.NoError(t, err)
	if len(got) != 2 || got[0] != mark {
		s.failf("Propose appends to dst, which has the length 1 and the capacity 2: it should return %s and one more, and returns %s",
			candidateText(mark), listed(got, candidateText))
	}
	s.holds(5, 50, 4)

	takes(1<<63, 8, 1, "one object is ranked")
	takes(1<<63, 8, 0, "each object is proposed, and none has a verdict")
	s.holds(5, 50, 5)
}

// resolveRules are what Resolve promises.
var resolveRules = map[string]func(s subject){
	"evicted objects are unknown": func(s subject) {
		s.insert(1, 10, 20)
		s.drain(2)
		s.resolve(evicted(1), evicted(2))
		s.holds(0, 0, 0)
		s.access(1)
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"retained objects are ranked": func(s subject) {
		s.insert(1, 10, 20)
		s.drain(2)
		s.resolve(spared(1), spared(2))
		s.holds(2, 30, 0)
		s.left("both are ranked again", 1, 2)
	},
	"a verdict on a ranked object is ignored": func(s subject) {
		s.insert(1, 10)
		s.resolve(evicted(1))
		s.holds(1, 10, 0)
		s.resolve(spared(1))
		s.holds(1, 10, 0)
		s.left("object 1 is the only one that is ranked", 1)
	},
	"a verdict on an unknown object is ignored": func(s subject) {
		s.resolve(evicted(5), spared(6), evicted(0), spared(0))
		s.holds(0, 0, 0)
		s.left("nothing is ranked")
	},
	"the first of two verdicts counts": func(s subject) {
		s.insert(1, 10, 20)
		s.drain(2)
		s.resolve(spared(1), evicted(1), evicted(2), spared(2))
		s.holds(1, 10, 0)
		s.left("object 1 is the only one that is ranked", 1)
	},
	"a spared object comes after all others": func(s subject) {
		s.insert(1, 1, 1, 1, 1, 1, 1, 1, 1)
		first := ids(s.propose(2, 8))
		if len(first) != 2 {
			s.failf("Propose of 2 bytes returns %s, and each of the 8 objects has 1 byte", listed(first, idText))
		}
		s.resolve(spared(first[0]), spared(first[1]))
		order := s.drain(8)
		last := slices.Sorted(slices.Values(order[max(len(order)-2, 0):]))
		if slices.Sort(first); len(order) != 8 || !slices.Equal(last, first) {
			s.failf("%s were retained and come after the 6 others, and Propose returns %s", listed(first, idText), listed(order, idText))
		}
	},
	"an evicted object can come back": func(s subject) {
		s.insert(1, 10)
		s.drain(1)
		s.resolve(evicted(1))
		s.insert(1, 30)
		s.holds(1, 30, 0)
		s.proposes(1, 4, evict.Candidate{ID: 1, Size: 30})
	},
}

// testIndependent checks that two policies of one factory share nothing.
func testIndependent(t conformance.T, f *subjects) {
	a, b := newSubject(t, f), newSubject(t, f)
	a.insert(1, 10)
	b.holds(0, 0, 0)
	b.insert(1, 20)
	a.remove(1)
	b.holds(1, 20, 0)
}

// testCapacity sets capacities between and beyond the bytes that the policy knows.
func testCapacity(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	set := func(bytes uint64) {
		s.call(func() string { return fmt.Sprintf("SetCapacity of %d bytes", bytes) }, func(ctx context.Context) error {
			return evict.SetCapacity(ctx, s.p, bytes)
		})
	}
	set(0)
	s.insert(1, 10, 10, 10)
	for _, bytes := range []uint64{100, 100, 1, 0, math.MaxUint64} {
		set(bytes)
		s.holds(3, 30, 0)
		got := s.propose(10, 8)
		if len(got) != 1 {
			s.failf("Propose of 10 bytes returns %s with a capacity of %d, and should return 1 object of 10 bytes", listed(got, candidateText), bytes)
		}
		s.resolve(evict.Verdict{ID: got[0].ID})
	}
	s.left("the capacity removes no object", 1, 2, 3)
}
