package alloctest

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// noOverlap requires that extents lie inside their spaces and do not overlap.
func noOverlap(t require.TestingT, sizes map[alloc.SpaceID]uint64, extents []alloc.Extent) {
	sorted := slices.SortedFunc(slices.Values(extents), func(a, b alloc.Extent) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Offset, b.Offset))
	})
	for i, e := range sorted {
		require.LessOrEqual(t, e.Size, sizes[e.Space], "%+v leaves its space", e)
		require.LessOrEqual(t, e.Offset, sizes[e.Space]-e.Size, "%+v leaves its space", e)
		if i > 0 && sorted[i-1].Space == e.Space {
			p := sorted[i-1]
			require.LessOrEqual(t, p.Offset+p.Size, e.Offset, "%+v overlaps %+v", p, e)
		}
	}
}

// testHostile asks for what can never be given and for spaces at the ends of the numbers.
func testHostile(t conformance.T, f *subjects) {
	s := newSubject(t, f,
		alloc.Space{ID: 1, Size: mib}, alloc.Space{ID: 2, Size: 1},
		alloc.Space{ID: math.MaxUint64, Size: math.MaxUint64}, alloc.Space{ID: 0, Size: 16 << 40})
	assert.Empty(t, s.alloc())
	for _, size := range []uint64{2 * mib, 1 << 40, 1 << 62, 1 << 63, math.MaxUint64 - 4096, math.MaxUint64 - 1, math.MaxUint64} {
		for _, align := range []uint64{0, 1, 4096, 1 << 63} {
			r := s.alloc(alloc.Request{Size: size, Align: align, Candidates: []alloc.SpaceID{1}})[0]
			code(t, r.Err, errs.NoAvailableHandle, errs.InvalidParams)
		}
	}
	code(t, s.alloc(alloc.Request{Size: 1})[0].Err, errs.InvalidParams, errs.NoAvailableHandle, errs.SegmentNotFound)
	assert.Equal(t, alloc.Stats{Size: mib, LargestFree: s.stats(1).LargestFree}, s.stats(1), "refusals change nothing")

	// The same space named many times is one candidate.
	r := s.alloc(alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{1, 1, 1, 1}})[0]
	require.NoError(t, r.Err)
	assert.Equal(t, uint64(1), s.stats(1).Extents)
	allNil(t, s.free(r.Extent))

	// Large numbers are numbers like others.
	for id, size := range map[alloc.SpaceID]uint64{0: 16 << 40, math.MaxUint64: math.MaxUint64} {
		var got []alloc.Extent
		for _, n := range []uint64{1, mib, 1 << 41, 3_120_000, 1 << 42} {
			got = append(got, s.must(id, n))
		}
		noOverlap(t, map[alloc.SpaceID]uint64{id: size}, got)
		assert.Equal(t, uint64(5), s.stats(id).Extents)
		allNil(t, s.free(got...))
		assert.Zero(t, s.stats(id).Reserved)
	}
	require.NoError(t, s.a.RemoveSpace(context.Background(), math.MaxUint64))
}

// testBatches works in batches of thousands.
func testBatches(t conformance.T, f *subjects) {
	const n, size = 4000, 16 * kib
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 2 * n * size})
	requests := make([]alloc.Request, n)
	for i := range requests {
		requests[i] = alloc.Request{Size: size, Align: 4096, Candidates: []alloc.SpaceID{1}}
	}
	var got []alloc.Extent
	for _, r := range s.alloc(requests...) {
		require.NoError(t, r.Err)
		got = append(got, r.Extent)
	}
	noOverlap(t, map[alloc.SpaceID]uint64{1: 2 * n * size}, got)
	st := s.stats(1)
	assert.Equal(t, uint64(n), st.Extents)
	assert.Equal(t, uint64(n*size), st.Requested)
	allNil(t, s.free(got...))
	for _, err := range s.free(got...) {
		code(t, err, errs.InvalidWrite)
	}
	assert.Zero(t, s.stats(1).Reserved)
}

// testConcurrent lets goroutines allocate and free in the same spaces while another space is added
// and removed. Each goroutine checks that its extents overlap no others.
func testConcurrent(t conformance.T, f *subjects) {
	const workers, rounds, batch = 8, 30, 20
	sizes := map[alloc.SpaceID]uint64{1: 8 * mib, 2: 8 * mib}
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 8 * mib}, alloc.Space{ID: 2, Size: 8 * mib})
	var mu sync.Mutex
	var held []alloc.Extent
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			var mine []alloc.Extent
			for range rounds {
				requests := make([]alloc.Request, batch)
				for i := range requests {
					requests[i] = alloc.Request{Size: 1 + rng.Uint64N(128*kib), Candidates: []alloc.SpaceID{1, 2, 3}}
				}
				results, err := s.a.Alloc(context.Background(), requests)
				if !assert.NoError(t, err) {
					return
				}
				for _, r := range results {
					switch {
					case r.Err != nil:
						code(t, r.Err, errs.NoAvailableHandle)
					case r.Extent.Space != 3:
						mine = append(mine, r.Extent)
					}
				}
				cut := len(mine) / 2
				bad, err := s.a.Free(context.Background(), mine[:cut])
				assert.NoError(t, err)
				assert.Nil(t, bad)
				mine = append([]alloc.Extent{}, mine[cut:]...)
			}
			mu.Lock()
			held = append(held, mine...)
			mu.Unlock()
		})
	}
	for range rounds {
		assert.NoError(t, s.a.AddSpace(context.Background(), alloc.Space{ID: 3, Size: mib}))
		assert.NoError(t, s.a.RemoveSpace(context.Background(), 3))
	}
	wg.Wait()
	noOverlap(t, sizes, held)
	assert.Equal(t, uint64(len(held)), s.stats(1).Extents+s.stats(2).Extents)
	allNil(t, s.free(held...))
	assert.Zero(t, s.stats(1).Reserved+s.stats(2).Reserved)
}
