package alloctest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// testEnded makes each call with a context that has ended.
func testEnded(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: mib})
	over := func(what string, call func(context.Context)) {
		rig.Within(t, f.patience, func() string { return what + " with a context that has ended" }, func() { call(rig.Over()) })
	}
	over("AddSpace", func(ctx context.Context) {
		if s.a.AddSpace(ctx, alloc.Space{ID: 2, Size: mib}) == nil {
			s.stats(2)
		}
	})
	held := s.must(1, 4*kib)
	over("Alloc", func(ctx context.Context) {
		results, err := s.a.Alloc(ctx, []alloc.Request{{Size: 4 * kib, Candidates: []alloc.SpaceID{1}}})
		if err != nil && len(results) > 0 {
			s.failf("Alloc returns %d results beside the error %v: their extents are lost", len(results), err)
		}
	})
	failed := false
	over("Free", func(ctx context.Context) {
		_, err := s.a.Free(ctx, []alloc.Extent{held})
		failed = err != nil
	})
	if failed {
		_ = s.free(held) // It may have been freed all the same.
	}
	over("Stats", func(ctx context.Context) { _, _ = s.a.Stats(ctx, 1) })
	// Where a call failed nothing may be assumed, so the master forgets the space.
	s.removeSpace(1)
	s.add(3, mib)
	s.allNil(s.free(s.must(3, s.stats(3).LargestFree)))
	s.holds(3, 0, 0, "all was freed")
}

// testKilled ends the process, and reserves in the next one what is in use.
func testKilled(t conformance.T, f *subjects) {
	if f.kill == nil {
		t.Skip("the allocator runs in this process; needs WithKill")
	}
	space := alloc.Space{ID: 1, Size: 64 * mib}
	s := newSubject(t, f, space)
	held := append(s.pages(1, 600, 16*kib, 0), s.must(1, 100), s.must(1, mib))
	before := s.stats(1)
	require.NoError(t, f.kill(s.a, func(ctx context.Context, a alloc.Allocator) error {
		if err := a.AddSpace(ctx, space); err != nil {
			return err
		}
		for batch := range slices.Chunk(held, 256) {
			if _, err := a.Reserve(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	}))
	rig.Recovered(t, func() error {
		_, err := s.a.Stats(context.Background(), 1)
		return err
	})
	s.same(1, before, s.stats(1), "the replay reserved all that was live")
	s.noOverlap(map[alloc.SpaceID]uint64{1: space.Size}, append(s.pages(1, 1000, 16*kib, 0), held...))
	s.allNil(s.free(held...))
}

// testThroughput measures a fixed amount of work in batches.
func testThroughput(t conformance.T, f *subjects) {
	const rounds = 20
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 1 << 40})
	var held []alloc.Extent
	began := time.Now()
	for range rounds {
		held = append(held, s.pages(1, benchBatch, mib, 0)...)
	}
	conformance.AddFigure(t, "allocations of 1 MiB in batches of 256", float64(len(held))/time.Since(began).Seconds(), "1/s")
	began = time.Now()
	for i := 0; i < len(held); i += benchBatch {
		s.allNil(s.free(held[i : i+benchBatch]...))
	}
	conformance.AddFigure(t, "frees in batches of 256", float64(len(held))/time.Since(began).Seconds(), "1/s")
}
