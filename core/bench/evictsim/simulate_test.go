package evictsim_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	sieve "github.com/mooncake-go/mooncake/plugins/evict-sieve"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/test/oracle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func policies() []evict.Factory {
	return []evict.Factory{lru.Factory(), s3fifo.Factory(), sieve.Factory()}
}

func newPolicy(t require.TestingT, f evict.Factory) evict.Policy {
	p, err := f.New(f.DefaultConfig())
	require.NoError(t, err)
	return p
}

func load(t require.TestingT, requests ...[]uint64) *evictsim.Trace {
	tr, err := evictsim.Load(source(requests...))
	require.NoError(t, err)
	return tr
}

func source(requests ...[]uint64) trace.Source {
	reqs := make([]trace.Request, len(requests))
	for i, blocks := range requests {
		reqs[i] = trace.Request{Blocks: blocks}
	}
	return trace.FromSlice(reqs)
}

func TestByHand(t *testing.T) {
	tr := load(t, []uint64{1, 2, 3}, []uint64{1, 2, 4}, []uint64{9, 4}, []uint64{1, 2, 3})
	require.Equal(t, [3]int{4, 11, 5}, [3]int{tr.Requests(), tr.Blocks(), tr.Distinct()})
	for _, c := range []struct {
		capacity     int
		lru, optimum evictsim.Hits
	}{
		{5, evictsim.Hits{Blocks: 6, Prefix: 5}, evictsim.Hits{Blocks: 6, Prefix: 5}}, // 4 is behind a gap
		// 9 drops 3 for LRU, while the optimum does not insert it.
		{4, evictsim.Hits{Blocks: 5, Prefix: 4}, evictsim.Hits{Blocks: 6, Prefix: 5}},
		{1, evictsim.Hits{}, evictsim.Hits{Blocks: 2, Prefix: 1}},
	} {
		got, err := evictsim.Simulate(t.Context(), tr, newPolicy(t, lru.Factory()), c.capacity)
		require.NoError(t, err)
		require.Equal(t, c.lru, got, "LRU at %d", c.capacity)
		require.Equal(t, c.optimum, evictsim.Optimum(tr, c.capacity), "optimum at %d", c.capacity)
	}
}

func requests(t *rapid.T) [][]uint64 {
	return rapid.SliceOfN(rapid.SliceOfN(rapid.Uint64Range(0, 30), 1, 12), 1, 40).Draw(t, "requests")
}

// TestAgainstTheOracle: the LRU plugin, driven through its contract, has the hits of a count
// that shares no code with it; and no policy beats the optimum.
func TestAgainstTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reqs, capacity := requests(t), rapid.IntRange(1, 25).Draw(t, "capacity")
		tr := load(t, reqs...)
		want, err := oracle.Run(source(reqs...), capacity, oracle.Rule{EachBlock: true})
		require.NoError(t, err)
		best := evictsim.Optimum(tr, capacity)
		for i, f := range policies() {
			got, err := evictsim.Simulate(context.Background(), tr, newPolicy(t, f), capacity)
			require.NoError(t, err)
			if i == 0 {
				require.Equal(t, want.Hits, got.Blocks)
			}
			require.LessOrEqual(t, got.Prefix, got.Blocks)
			require.LessOrEqual(t, got.Blocks, best.Blocks, f.Manifest().Name)
		}
	})
}

// auditor is a policy that holds the simulator to the contract.
type auditor struct {
	evict.Policy
	t        require.TestingT
	capacity int
	held     map[evict.ID]uint64 // fingerprints
	last     evict.ID
	calls    []evict.Event
}

func (a *auditor) Record(ctx context.Context, events []evict.Event) error {
	for _, ev := range events {
		if ev.Op == evict.Insert {
			require.Greater(a.t, ev.ID, a.last, "a new ID for each insertion")
			require.Equal(a.t, uint64(1), ev.Size)
			require.NotZero(a.t, ev.Fingerprint)
			a.last = ev.ID
			a.held[ev.ID] = ev.Fingerprint
		} else {
			require.Contains(a.t, a.held, ev.ID)
		}
		if ev.Parent != 0 {
			require.Contains(a.t, a.held, ev.Parent)
		}
	}
	require.LessOrEqual(a.t, len(a.held), a.capacity)
	a.calls = append(a.calls, events...)
	return a.Policy.Record(ctx, events)
}

func (a *auditor) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	require.Len(a.t, a.held, a.capacity, "it makes space only when the pool is full")
	for _, v := range verdicts {
		require.True(a.t, v.Evicted)
		delete(a.held, v.ID)
	}
	return a.Policy.Resolve(ctx, verdicts)
}

func TestPolicyIsToldByTheContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &auditor{Policy: newPolicy(t, lru.Factory()), t: t, held: map[evict.ID]uint64{}}
		a.capacity = rapid.IntRange(1, 25).Draw(t, "capacity")
		_, err := evictsim.Simulate(context.Background(), load(t, requests(t)...), a, a.capacity)
		require.NoError(t, err)
	})
}

func TestEvents(t *testing.T) {
	a := &auditor{Policy: newPolicy(t, lru.Factory()), t: t, held: map[evict.ID]uint64{}, capacity: 2}
	_, err := evictsim.Simulate(t.Context(), load(t, []uint64{7, 8}, []uint64{7, 7, 9}, []uint64{8}), a, 2)
	require.NoError(t, err)
	require.Equal(t, a.calls[1].Fingerprint, a.calls[5].Fingerprint, "both are block 8")
	require.NotEqual(t, a.calls[0].Fingerprint, a.calls[1].Fingerprint)
	for i := range a.calls {
		a.calls[i].Fingerprint = 0
	}
	require.Equal(t, []evict.Event{
		{Op: evict.Insert, ID: 1, Size: 1},
		{Op: evict.Insert, ID: 2, Size: 1, Parent: 1},
		{Op: evict.Access, ID: 1},
		{Op: evict.Access, ID: 1}, // a block is not before itself
		{Op: evict.Insert, ID: 3, Size: 1, Parent: 1},
		{Op: evict.Insert, ID: 4, Size: 1}, // block 8 again, under a new ID
	}, a.calls)
}

// faulty proposes what it was told to.
type faulty struct {
	evict.Policy
	victims []evict.Candidate
	err     error
}

func (f faulty) Propose(context.Context, []evict.Candidate, uint64) ([]evict.Candidate, error) {
	return f.victims, f.err
}

func TestFaultyPolicies(t *testing.T) {
	tr := load(t, []uint64{1, 2, 3})
	died := errors.New("the process died")
	for _, c := range []struct {
		name string
		faulty
		want string
	}{
		{"nothing", faulty{}, "proposed 0 objects for 1 byte"},
		{"too many", faulty{victims: []evict.Candidate{{ID: 1}, {ID: 2}}}, "proposed 2 objects"},
		{"unknown", faulty{victims: []evict.Candidate{{ID: math.MaxUint64}}}, "not in the pool"},
		{"zero", faulty{victims: []evict.Candidate{{}}}, "not in the pool"},
		{"gone", faulty{victims: []evict.Candidate{{ID: 1}}}, "proposed object 1, which is not in the pool"}, // the second time
		{"failed", faulty{err: died}, "propose: the process died"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.Policy = newPolicy(t, lru.Factory())
			_, err := evictsim.Simulate(t.Context(), tr, c.faulty, 1)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	_, err := evictsim.Load(source(nil, []uint64{}))
	require.True(t, errs.Is(err, errs.InvalidParams))
	require.ErrorContains(t, err, "it has no blocks")
	f, err := os.Open("simulate_test.go")
	require.NoError(t, err)
	defer f.Close()
	_, err = evictsim.Load(trace.NewReader(f))
	var line *trace.LineError
	require.ErrorAs(t, err, &line)
	require.Equal(t, 1, line.Line)
}

func TestDuplicateBlocksInARequest(t *testing.T) {
	tr := load(t, slices.Repeat([]uint64{5}, 4))
	got, err := evictsim.Simulate(t.Context(), tr, newPolicy(t, sieve.Factory()), 1)
	require.NoError(t, err)
	require.Equal(t, evictsim.Hits{Blocks: 3}, got, "the first is a gap")
}
