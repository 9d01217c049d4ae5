package prefix

import (
	"context"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { evicttest.Run(t, Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, evicttest.ThroughWire(t, Factory()))
}

func BenchmarkPrefix(b *testing.B) { evicttest.Bench(b, Factory()) }

// TestTestdata holds the policy to its hit ratios on a committed trace, which is what
// conversations(7, 500) makes.
func TestTestdata(t *testing.T) {
	load := readTrace(t, "testdata/conversations.jsonl")
	require.Equal(t, conversations(7, 500), load, "the generator or the file was changed")
	for _, c := range []struct {
		capacity int
		least    float64
	}{{200, 0.058}, {500, 0.087}, {1000, 0.136}, {2000, 0.213}} {
		got, lru := replay(t, newPolicy(), load, c.capacity, true), replayLRU(load, c.capacity)
		t.Logf("%d blocks: %.4f, prefixes %.4f, LRU %.4f", c.capacity, got.ratio(), float64(got.prefix)/float64(got.total), lru.ratio())
		assert.GreaterOrEqual(t, got.ratio(), c.least)
		assert.GreaterOrEqual(t, got.ratio(), lru.ratio())
	}
}

// TestDeterministic: the same calls have the same victims.
func TestDeterministic(t *testing.T) {
	load := mixed(1, conversations(8, 300), documents(8, 300))
	first := replay(t, newPolicy(), load, 500, true)
	require.NotEmpty(t, first.victims)
	assert.Equal(t, first, replay(t, newPolicy(), load, 500, true))
}

// TestEntrySize gates the memory that the README promises.
func TestEntrySize(t *testing.T) {
	assert.EqualValues(t, 32, unsafe.Sizeof(ranked.Entry[state]{}))
	assert.EqualValues(t, 12, unsafe.Sizeof(sample{}))
}

// TestSteadyStateAllocatesNothing gates the claim of the package comment.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const batch, live = 64, 5000 // far from a size at which a table grows
	ctx := context.Background()
	p := newPolicy()
	next := evict.ID(1)
	events := make([]evict.Event, 0, 2*batch)
	insert := func() {
		events = append(events, evict.Event{Op: evict.Insert, ID: next, Size: 1, Parent: next - next%7, Fingerprint: uint64(next % (2 * live))})
		next++
	}
	for range live {
		insert()
		require.NoError(t, p.Record(ctx, events))
		events = events[:0]
	}
	candidates, verdicts := make([]evict.Candidate, 0, batch), make([]evict.Verdict, batch)
	turn := func() {
		for range batch {
			insert()
			events = append(events, evict.Event{Op: evict.Access, ID: next - live/2})
		}
		_ = p.Record(ctx, events)
		events = events[:0]
		got, _ := p.Propose(ctx, candidates, batch)
		for i, c := range got {
			verdicts[i] = evict.Verdict{ID: c.ID, Evicted: true}
		}
		_ = p.Resolve(ctx, verdicts[:len(got)])
	}
	for range 20 * live / batch {
		turn() // the index of IDs reaches its size
	}
	assert.Zero(t, testing.AllocsPerRun(5, func() { // Fewer than one a run are of the runtime.
		for range 200 {
			turn()
		}
	}))
}
