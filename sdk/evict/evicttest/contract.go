package evicttest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// recordRules are what Record, Propose and Stats promise of events.
var recordRules = map[string]func(s subject){
	"a new policy is empty": func(s subject) {
		s.holds(0, 0, 0)
		assert.Empty(s.t, s.drain(4))
	},
	"insert makes known": func(s subject) {
		s.insert(1, 10, 20)
		s.holds(2, 30, 0)
		assert.ElementsMatch(s.t, []evict.Candidate{{ID: 1, Size: 10}, {ID: 2, Size: 20}}, s.propose(30, 4))
	},
	"insert of a known object is an access": func(s subject) {
		s.insert(1, 10)
		s.insert(1, 99)
		s.holds(1, 10, 0)
		assert.Equal(s.t, []evict.Candidate{{ID: 1, Size: 10}}, s.propose(1, 4))
		s.insert(1, 99)
		s.holds(1, 10, 1)
		assert.Empty(s.t, s.drain(4), "proposed twice")
	},
	"access to an unknown object is ignored": func(s subject) {
		s.access(7)
		s.holds(0, 0, 0)
		assert.Empty(s.t, s.drain(4))
	},
	"access to a proposed object leaves it proposed": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.access(1)
		s.holds(1, 10, 1)
		assert.Empty(s.t, s.drain(4), "proposed twice")
		s.resolve(spared(1))
		assert.Equal(s.t, []evict.ID{1}, s.drain(4))
	},
	"an accessed and evicted object is gone": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.access(1)
		s.resolve(evicted(1))
		s.holds(0, 0, 0)
		assert.Empty(s.t, s.drain(4))
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
		assert.Equal(s.t, []evict.ID{2}, s.drain(4))
	},
	"remove forgets a proposed object": func(s subject) {
		s.insert(1, 10)
		s.propose(1, 1)
		s.remove(1)
		s.holds(0, 0, 0)
		s.resolve(spared(1))
		s.holds(0, 0, 0)
		assert.Empty(s.t, s.drain(4))
	},
	"a removed object can come back": func(s subject) {
		s.insert(1, 10)
		s.remove(1)
		s.insert(1, 25)
		s.holds(1, 25, 0)
		assert.Equal(s.t, []evict.Candidate{{ID: 1, Size: 25}}, s.propose(1, 4))
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

	assert.Empty(t, s.propose(0, 8), "no bytes wanted")
	assert.Empty(t, s.propose(1, 0), "the capacity is 0")
	got, err := s.p.Propose(context.Background(), nil, 100)
	require.NoError(t, err)
	assert.Empty(t, got, "a nil dst has no capacity")

	assert.Len(t, s.propose(10, 8), 1, "one is enough for 10 bytes")
	assert.Len(t, s.propose(11, 8), 2, "11 bytes take two")
	s.holds(5, 50, 3)

	mark := evict.Candidate{ID: 1 << 60, Size: 3}
	got, err = s.p.Propose(context.Background(), append(make([]evict.Candidate, 0, 2), mark), 1000)
	require.NoError(t, err)
	require.Len(t, got, 2, "dst has space for one more")
	assert.Equal(t, mark, got[0], "Propose appends to dst and leaves what is there")
	s.holds(5, 50, 4)

	assert.Len(t, s.drain(8), 1, "one was left to propose")
	assert.Empty(t, s.drain(8), "nothing is proposed twice")
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
		assert.Empty(s.t, s.drain(4))
	},
	"spared objects are ranked": func(s subject) {
		s.insert(1, 10, 20)
		s.drain(2)
		s.resolve(spared(1), spared(2))
		s.holds(2, 30, 0)
		assert.ElementsMatch(s.t, []evict.ID{1, 2}, s.drain(4))
	},
	"a verdict on a ranked object is ignored": func(s subject) {
		s.insert(1, 10)
		s.resolve(evicted(1))
		s.holds(1, 10, 0)
		s.resolve(spared(1))
		s.holds(1, 10, 0)
		assert.Equal(s.t, []evict.ID{1}, s.drain(4))
	},
	"a verdict on an unknown object is ignored": func(s subject) {
		s.resolve(evicted(5), spared(6), evicted(0), spared(0))
		s.holds(0, 0, 0)
		assert.Empty(s.t, s.drain(4))
	},
	"the first of two verdicts counts": func(s subject) {
		s.insert(1, 10, 20)
		s.drain(2)
		s.resolve(spared(1), evicted(1), evicted(2), spared(2))
		s.holds(1, 10, 0)
		assert.Equal(s.t, []evict.ID{1}, s.drain(4))
	},
	"a spared object comes after all others": func(s subject) {
		s.insert(1, 1, 1, 1, 1, 1, 1, 1, 1)
		first := ids(s.propose(2, 8))
		require.Len(s.t, first, 2)
		s.resolve(spared(first[0]), spared(first[1]))
		order := s.drain(8)
		require.Len(s.t, order, 8)
		assert.ElementsMatch(s.t, first, order[6:], "spared objects are proposed before others")
	},
	"an evicted object can come back": func(s subject) {
		s.insert(1, 10)
		s.drain(1)
		s.resolve(evicted(1))
		s.insert(1, 30)
		s.holds(1, 30, 0)
		assert.Equal(s.t, []evict.Candidate{{ID: 1, Size: 30}}, s.propose(1, 4))
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
