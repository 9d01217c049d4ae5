package evicttest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// testEnded makes each call with a context that has ended, and then repairs what may not
// have happened as a master would.
func testEnded(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	over := func(what string, call func(context.Context)) {
		rig.Within(t, f.patience, func() string { return what + " with a context that has ended" }, func() { call(rig.Over()) })
	}
	events := []evict.Event{{Op: evict.Insert, ID: 1, Size: 10}, {Op: evict.Insert, ID: 2, Size: 20}}
	over("Record", func(ctx context.Context) { _ = s.p.Record(ctx, events) })
	s.record(events...) // Known objects are accesses.
	s.holds(2, 30, 0)
	over("Propose", func(ctx context.Context) {
		if got, err := s.p.Propose(ctx, make([]evict.Candidate, 0, 4), 15); err != nil {
			assert.Empty(t, got, "candidates beside an error are lost")
		}
	})
	over("Resolve", func(ctx context.Context) { _ = s.p.Resolve(ctx, []evict.Verdict{spared(1), spared(2)}) })
	s.resolve(spared(1), spared(2))
	s.holds(2, 30, 0)
	over("Stats", func(ctx context.Context) { _, _ = s.p.Stats(ctx) })
	s.left("the verdicts retain both", 1, 2)
}

// testKilled ends the process, and fills the next one with half of what there was.
func testKilled(t conformance.T, f *subjects) {
	if f.kill == nil {
		t.Skip("the policy runs in this process; needs WithKill")
	}
	const n, batch = 10_000, 4096
	s := newSubject(t, f)
	s.insert(n+1, 10, 20, 30, 40)
	s.propose(1, 1)
	require.NoError(t, f.kill(s.p, func(ctx context.Context, p evict.Policy) error {
		subject{t: t, p: p, patience: f.patience}.replayed(n, batch)
		return p.Record(ctx, []evict.Event{{Op: evict.Insert, ID: n + 2, Size: 20}, {Op: evict.Insert, ID: n + 7, Size: 70}})
	}))
	rig.Recovered(t, func() error {
		_, err := s.p.Stats(context.Background())
		return err
	})
	s.holds(n+2, 5*n+90, 0)
	s.remove(1)
	s.holds(n+1, 5*(n-1)+90, 0)
	if got := s.propose(1<<63, 2*n); len(got) != n+1 {
		s.failf("Propose of all that is ranked returns %s after a replay of %d objects", count(len(got), "victim"), n+1)
	}
}

// testThroughput measures a fixed amount of work on 20,000 objects.
func testThroughput(t conformance.T, f *subjects) {
	const objects, rounds, turns = 20_000, 40, 6
	s := newSubject(t, f)
	sizes := make([]uint64, benchBatch)
	for i := range sizes {
		sizes[i] = 1
	}
	began := time.Now()
	for first := 1; first <= objects; first += benchBatch {
		s.insert(evict.ID(first), sizes...)
	}
	inserts := (objects + benchBatch - 1) / benchBatch * benchBatch
	conformance.AddFigure(t, "inserts in batches of 256", float64(inserts)/time.Since(began).Seconds(), "1/s")
	rng := rand.New(rand.NewPCG(1, 2))
	events := make([]evict.Event, benchBatch)
	began = time.Now()
	for range rounds {
		for i := range events {
			events[i] = evict.Event{Op: evict.Access, ID: 1 + evict.ID(rng.IntN(objects))}
		}
		s.record(events...)
	}
	conformance.AddFigure(t, "accesses in batches of 256", float64(rounds*benchBatch)/time.Since(began).Seconds(), "1/s")
	began = time.Now()
	verdicts := make([]evict.Verdict, benchBatch)
	for range turns {
		got := s.propose(benchBatch, benchBatch)
		for i, c := range got {
			verdicts[i] = evicted(c.ID)
		}
		s.resolve(verdicts[:len(got)]...)
	}
	conformance.AddFigure(t, "victims in batches of 256", float64(turns*benchBatch)/time.Since(began).Seconds(), "1/s")
}
