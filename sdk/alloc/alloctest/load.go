package alloctest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// noOverlap requires that extents lie inside their spaces and do not overlap.
func (s subject) noOverlap(sizes map[alloc.SpaceID]uint64, extents []alloc.Extent) {
	sorted := slices.SortedFunc(slices.Values(extents), func(a, b alloc.Extent) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Offset, b.Offset))
	})
	for i, e := range sorted {
		if size := sizes[e.Space]; e.Size > size || e.Offset > size-e.Size {
			s.failf("%s leave the space, which has %d bytes", extentText(e), size)
		}
		if i > 0 && sorted[i-1].Space == e.Space && sorted[i-1].Offset+sorted[i-1].Size > e.Offset {
			s.failf("%s overlap %s", extentText(sorted[i-1]), extentText(e))
		}
	}
}

// testHostile asks for what can never be given and for spaces at the ends of the numbers.
func testHostile(t conformance.T, f *subjects) {
	s := newSubject(t, f,
		alloc.Space{ID: 1, Size: mib}, alloc.Space{ID: 2, Size: 1},
		alloc.Space{ID: math.MaxUint64, Size: math.MaxUint64}, alloc.Space{ID: 0, Size: 16 << 40})
	s.alloc()
	for _, size := range []uint64{2 * mib, 1 << 40, 1 << 62, 1 << 63, math.MaxUint64 - 4096, math.MaxUint64 - 1, math.MaxUint64} {
		for _, align := range []uint64{0, 1, 4096, 1 << 63} {
			r := s.alloc(alloc.Request{Size: size, Align: align, Candidates: []alloc.SpaceID{1}})[0]
			s.code(fmt.Sprintf("a request for %d bytes, aligned to %d, of a space of 1 MiB", size, align), r.Err, errs.NoAvailableHandle, errs.InvalidParams)
		}
	}
	s.code("a request without a candidate", s.alloc(alloc.Request{Size: 1})[0].Err, errs.InvalidParams, errs.NoAvailableHandle, errs.SegmentNotFound)
	s.same(1, alloc.Stats{Size: mib}, s.stats(1), "refusals change nothing")

	// The same space named many times is one candidate.
	r := s.alloc(alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{1, 1, 1, 1}})[0]
	s.allNil([]error{r.Err})
	s.holds(1, 1, 4*kib, "a space that is named four times is one candidate")
	s.allNil(s.free(r.Extent))

	// Large numbers are numbers like others.
	for id, size := range rig.Ordered(map[alloc.SpaceID]uint64{0: 16 << 40, math.MaxUint64: math.MaxUint64}) {
		var got []alloc.Extent
		var sum uint64
		for _, n := range []uint64{1, mib, 1 << 41, 3_120_000, 1 << 42, 1 << 33, mib} {
			got = append(got, s.must(id, n))
			sum += n
		}
		s.noOverlap(map[alloc.SpaceID]uint64{id: size}, got)
		s.holds(id, len(got), sum, "they were allocated")
		s.allNil(s.free(got...))
		s.holds(id, 0, 0, "all was freed")
	}
	s.removeSpace(math.MaxUint64)
}

// testLarge allocates more pages than 4 GiB have, so that offsets need more than 32 bits.
func testLarge(t conformance.T, f *subjects) {
	const n, page, size = 5000, mib, 16 << 30
	s := newSubject(t, f, alloc.Space{ID: 1, Size: size})
	var got []alloc.Extent
	for range n / 1000 {
		got = append(got, s.pages(1, 1000, page, 4096)...)
	}
	s.noOverlap(map[alloc.SpaceID]uint64{1: size}, got)
	s.holds(1, n, n*page, "they were allocated")
	s.allNil(s.free(got...))
	s.holds(1, 0, 0, "all was freed")
}

// masterBatches are how many extents a master handles in one call, and what lies just beside powers of two.
var masterBatches = []int{1, 2, 64, 65, 255, 256, 257, 1024, 4096, 4097}

// testBatches works in batches of each length.
func testBatches(t conformance.T, f *subjects) {
	const size = 16 * kib
	space := 2 * size * uint64(slices.Max(masterBatches))
	s := newSubject(t, f, alloc.Space{ID: 1, Size: space})
	for _, n := range masterBatches {
		got := s.pages(1, n, size, 4096)
		s.noOverlap(map[alloc.SpaceID]uint64{1: space}, got)
		s.holds(1, n, uint64(n)*size, fmt.Sprintf("a batch of %d was allocated", n))
		s.allNil(s.free(got...))
		s.holds(1, 0, 0, fmt.Sprintf("a batch of %d was freed", n))
		for i, err := range s.free(got...) {
			s.code(fmt.Sprintf("Free of extent %d of %d, which was freed before,", i, n), err, errs.InvalidWrite)
		}
	}
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
						s.code("Alloc of spaces that may be full", r.Err, errs.NoAvailableHandle)
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
	s.noOverlap(sizes, held)
	if n := s.stats(1).Extents + s.stats(2).Extents; n != uint64(len(held)) {
		s.failf("Stats counts %d extents, and %d are live", n, len(held))
	}
	s.allNil(s.free(held...))
	s.holds(1, 0, 0, "all was freed")
	s.holds(2, 0, 0, "all was freed")
}
