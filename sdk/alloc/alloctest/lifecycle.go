package alloctest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// testEnded makes each call with a context that has ended.
func testEnded(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: mib})
	if s.a.AddSpace(rig.Over(), alloc.Space{ID: 2, Size: mib}) == nil {
		s.stats(2)
	}
	held := s.must(1, 4*kib)
	results, err := s.a.Alloc(rig.Over(), []alloc.Request{{Size: 4 * kib, Candidates: []alloc.SpaceID{1}}})
	if err != nil {
		assert.Empty(t, results, "extents beside an error are lost")
	}
	_, err = s.a.Free(rig.Over(), []alloc.Extent{held})
	if err != nil {
		_ = s.free(held) // It may have been freed all the same.
	}
	// Where a call failed nothing may be assumed, so the master forgets the space.
	require.NoError(t, s.a.RemoveSpace(context.Background(), 1))
	s.add(3, mib)
	e := s.must(3, s.stats(3).LargestFree)
	allNil(t, s.free(e))
	assert.Zero(t, s.stats(3).Extents)
}

// testKilled ends the process, and reserves in the next one what is in use.
func testKilled(t conformance.T, f *subjects) {
	if f.kill == nil {
		t.Skip("the allocator runs in this process; needs WithKill")
	}
	space := alloc.Space{ID: 1, Size: 16 * mib}
	s := newSubject(t, f, space)
	held := []alloc.Extent{s.must(1, 64*kib), s.must(1, 100), s.must(1, mib)}
	before := s.stats(1)
	require.NoError(t, f.kill(s.a, func(ctx context.Context, a alloc.Allocator) error {
		if err := a.AddSpace(ctx, space); err != nil {
			return err
		}
		_, err := a.Reserve(ctx, held)
		return err
	}))
	rig.Recovered(t, func() error {
		_, err := s.a.Stats(context.Background(), 1)
		return err
	})
	after := s.stats(1)
	before.LargestFree, after.LargestFree = 0, 0
	assert.Equal(t, before, after)
	noOverlap(t, map[alloc.SpaceID]uint64{1: space.Size}, append(held, s.must(1, 64*kib)))
	allNil(t, s.free(held...))
}

// testThroughput measures a fixed amount of work in batches.
func testThroughput(t conformance.T, f *subjects) {
	const rounds = 20
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 1 << 40})
	requests := make([]alloc.Request, benchBatch)
	for i := range requests {
		requests[i] = alloc.Request{Size: mib, Candidates: []alloc.SpaceID{1}}
	}
	var held []alloc.Extent
	began := time.Now()
	for range rounds {
		for _, r := range s.alloc(requests...) {
			require.NoError(t, r.Err)
			held = append(held, r.Extent)
		}
	}
	conformance.AddFigure(t, "allocations of 1 MiB in batches of 256", float64(len(held))/time.Since(began).Seconds(), "1/s")
	began = time.Now()
	for i := 0; i < len(held); i += benchBatch {
		allNil(t, s.free(held[i:i+benchBatch]...))
	}
	conformance.AddFigure(t, "frees in batches of 256", float64(len(held))/time.Since(began).Seconds(), "1/s")
}
