package sieve_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	sieve "github.com/mooncake-go/mooncake/plugins/evict-sieve"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { evicttest.Run(t, sieve.Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, evicttest.ThroughWire(t, sieve.Factory()))
}

func newPolicy(tb testing.TB) evict.Policy {
	tb.Helper()
	p, err := sieve.Factory().New(sieve.Factory().DefaultConfig())
	require.NoError(tb, err)
	return p
}

func record(t require.TestingT, p evict.Policy, op evict.Op, ids ...evict.ID) {
	events := make([]evict.Event, len(ids))
	for i, id := range ids {
		events[i] = evict.Event{Op: op, ID: id, Size: 1}
	}
	require.NoError(t, p.Record(context.Background(), events))
}

func propose(t require.TestingT, p evict.Policy, n int) []evict.ID {
	got, err := p.Propose(context.Background(), make([]evict.Candidate, 0, n), uint64(n))
	require.NoError(t, err)
	ids := make([]evict.ID, len(got))
	for i, c := range got {
		ids[i] = c.ID
	}
	return ids
}

func resolve(t require.TestingT, p evict.Policy, evicted bool, ids ...evict.ID) {
	verdicts := make([]evict.Verdict, len(ids))
	for i, id := range ids {
		verdicts[i] = evict.Verdict{ID: id, Evicted: evicted}
	}
	require.NoError(t, p.Resolve(context.Background(), verdicts))
}

func TestHand(t *testing.T) {
	p := newPolicy(t)
	record(t, p, evict.Insert, 1, 2, 3, 4, 5)
	record(t, p, evict.Access, 1, 3)
	assert.Equal(t, []evict.ID{2, 4}, propose(t, p, 2), "the hand passes 1 and 3 and waits at 5")
	resolve(t, p, true, 2, 4)
	record(t, p, evict.Insert, 6, 7)
	record(t, p, evict.Access, 5)
	assert.Equal(t, []evict.ID{6}, propose(t, p, 1), "new ones are looked at before old ones again")
	record(t, p, evict.Remove, 7) // where the hand is
	assert.Equal(t, []evict.ID{1, 3, 5}, propose(t, p, 9), "the marks are gone after one turn")
}

func TestRetainedGoLast(t *testing.T) {
	p := newPolicy(t)
	record(t, p, evict.Insert, 1, 2, 3, 4, 5)
	record(t, p, evict.Access, 3, 4)
	require.Equal(t, []evict.ID{1, 2}, propose(t, p, 2))
	record(t, p, evict.Access, 1) // while proposed
	resolve(t, p, false, 2, 1)
	assert.Equal(t, []evict.ID{5, 3, 4, 2, 1}, propose(t, p, 9))
}

// TestTextbook compares with the algorithm of the paper on a slice, request by request:
// the hits must be the same, and so must the victims.
func TestTextbook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 40).Draw(rt, "capacity")
		requests := rapid.SliceOfN(rapid.Uint64Range(1, 80), 1, 400).Draw(rt, "requests")
		p := newPolicy(t)
		var queue []uint64 // the oldest first
		visited, hand := map[uint64]bool{}, 0
		for _, id := range requests {
			if _, hit := visited[id]; hit {
				visited[id] = true
				record(rt, p, evict.Access, evict.ID(id))
				continue
			}
			if len(queue) == capacity {
				for {
					if hand == len(queue) {
						hand = 0
					}
					if !visited[queue[hand]] {
						break
					}
					visited[queue[hand]] = false
					hand++
				}
				victim := queue[hand]
				queue = append(queue[:hand], queue[hand+1:]...)
				if hand == len(queue) {
					hand = 0 // from the newest to the oldest, before another comes
				}
				delete(visited, victim)
				require.Equal(rt, []evict.ID{evict.ID(victim)}, propose(rt, p, 1))
				resolve(rt, p, true, evict.ID(victim))
			}
			queue = append(queue, id)
			visited[id] = false
			record(rt, p, evict.Insert, evict.ID(id))
		}
	})
}

func BenchmarkSIEVE(b *testing.B) { evicttest.Bench(b, sieve.Factory()) }
