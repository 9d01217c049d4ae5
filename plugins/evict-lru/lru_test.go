package lru_test

import (
	"container/list"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { evicttest.Run(t, lru.Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, evicttest.ThroughWire(t, lru.Factory()))
}

func newPolicy(tb testing.TB) evict.Policy {
	tb.Helper()
	p, err := lru.Factory().New(lru.Factory().DefaultConfig())
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

func TestOrder(t *testing.T) {
	p := newPolicy(t)
	record(t, p, evict.Insert, 1, 2, 3, 4, 5)
	record(t, p, evict.Access, 2, 1)
	record(t, p, evict.Insert, 3) // known: counts as an access
	assert.Equal(t, []evict.ID{4, 5}, propose(t, p, 2))
	record(t, p, evict.Access, 2)
	require.NoError(t, p.Resolve(t.Context(), []evict.Verdict{{ID: 4}, {ID: 5, Evicted: true}}))
	assert.Equal(t, []evict.ID{1, 3, 2, 4}, propose(t, p, 9), "a retained object is the most recent")
}

func TestUnknownOperationsAreIgnored(t *testing.T) {
	p := newPolicy(t)
	record(t, p, evict.Insert, 1, 2)
	record(t, p, 0, 1, 3)
	record(t, p, 200, 1, 3)
	assert.Equal(t, []evict.ID{1, 2}, propose(t, p, 4))
}

// TestTextbook compares with a textbook LRU of the same capacity, request by request: the
// hits must be the same, and so must the victims.
func TestTextbook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 40).Draw(rt, "capacity")
		requests := rapid.SliceOfN(rapid.Uint64Range(1, 80), 1, 400).Draw(rt, "requests")
		p := newPolicy(t)
		order, where := list.New(), map[uint64]*list.Element{}
		for _, id := range requests {
			if e, hit := where[id]; hit {
				order.MoveToFront(e)
				record(rt, p, evict.Access, evict.ID(id))
				continue
			}
			if order.Len() == capacity {
				victim, _ := order.Remove(order.Back()).(uint64)
				delete(where, victim)
				require.Equal(rt, []evict.ID{evict.ID(victim)}, propose(rt, p, 1))
				require.NoError(rt, p.Resolve(context.Background(), []evict.Verdict{{ID: evict.ID(victim), Evicted: true}}))
			}
			where[id] = order.PushFront(id)
			record(rt, p, evict.Insert, evict.ID(id))
		}
	})
}

// TestManyObjects drives the table through growth and wholesale deletion, and checks
// every object afterwards.
func TestManyObjects(t *testing.T) {
	const n = 200_000
	p := newPolicy(t)
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make([]evict.ID, n)
	seen := make(map[evict.ID]bool, n)
	for i := range ids {
		for ids[i] == 0 || seen[ids[i]] {
			ids[i] = evict.ID(rng.Uint64() >> rng.UintN(40))
		}
		seen[ids[i]] = true
	}
	record(t, p, evict.Insert, ids...)
	record(t, p, evict.Remove, ids[:n/2]...)
	record(t, p, evict.Insert, ids[:n/4]...)
	want := append(append([]evict.ID{}, ids[n/2:]...), ids[:n/4]...)
	assert.Equal(t, want, propose(t, p, n))
}

// TestSteadyStateAllocatesNothing gates the claim of the package comment.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const batch, objects = 64, 8000 // far from a size at which the table grows
	ctx := context.Background()
	p := newPolicy(t)
	next := evict.ID(1)
	for range objects {
		record(t, p, evict.Insert, next)
		next++
	}
	events := make([]evict.Event, 2*batch)
	candidates := make([]evict.Candidate, 0, batch)
	verdicts := make([]evict.Verdict, batch)
	turn := func() {
		for i := range batch {
			events[i] = evict.Event{Op: evict.Insert, ID: next, Size: 1}
			events[batch+i] = evict.Event{Op: evict.Access, ID: next - objects/2}
			next++
		}
		_ = p.Record(ctx, events)
		got, _ := p.Propose(ctx, candidates, batch)
		for i, c := range got {
			verdicts[i] = evict.Verdict{ID: c.ID, Evicted: true}
		}
		_ = p.Resolve(ctx, verdicts[:len(got)])
	}
	for range 2 * objects / batch {
		turn() // the parts of the table reach their sizes
	}
	assert.Zero(t, testing.AllocsPerRun(5, func() { // Fewer than one a run are of the runtime.
		for range 200 {
			turn()
		}
	}))
	st, err := p.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, evict.Stats{Objects: objects, Bytes: objects}, st)
}

func BenchmarkLRU(b *testing.B) { evicttest.Bench(b, lru.Factory()) }
