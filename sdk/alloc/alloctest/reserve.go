package alloctest

import (
	"math/rand/v2"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func testReserve(t conformance.T, f *subjects) {
	space := alloc.Space{ID: 1, Size: 16 * mib}
	first := newSubject(t, f, space)
	low, a, b := first.must(1, 64*kib), first.must(1, 64*kib), first.must(1, 1000)
	if low.Offset > a.Offset {
		low, a = a, low
	}
	allNil(t, first.free(low))

	s := newSubject(t, f, space)
	assert.Empty(t, s.reserve())
	allNil(t, s.reserve(a))
	before := s.stats(1)
	refused := func(what string, want errs.Code, e alloc.Extent) {
		code(t, s.reserve(e)[0], want)
		assert.Equal(t, before, s.stats(1), "%s changes nothing", what)
	}
	refused("a second reservation", errs.InvalidWrite, a)
	refused("an extent that runs into one in use", errs.InvalidWrite,
		alloc.Extent{Space: 1, Offset: low.Offset, Size: a.Offset - low.Offset + 1})
	refused("an extent inside one in use", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: a.Offset + 32*kib, Size: 100})
	refused("an extent past the end", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 16 * mib, Size: 64 * kib})
	refused("an extent over the end", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 16*mib - 4*kib, Size: 64 * kib})
	refused("an end past 2^64", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 64 * kib, Size: ^uint64(0)})
	refused("an offset near 2^64", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: ^uint64(0) - 4095, Size: 64 * kib})
	refused("size 0", errs.NoAvailableHandle, alloc.Extent{Space: 1, Offset: 4 * mib})

	got := s.reserve(b, a)
	require.NoError(t, got[0], "one bad extent does not spoil the batch")
	code(t, got[1], errs.InvalidWrite)
	assert.Equal(t, first.stats(1).Requested, s.stats(1).Requested)
	assert.Equal(t, first.stats(1).Reserved, s.stats(1).Reserved)
	assert.Equal(t, uint64(2), s.stats(1).Extents)
	allNil(t, s.free(a, b))
	code(t, s.free(a)[0], errs.InvalidWrite)
	assert.Zero(t, s.stats(1).Extents)
}

// testRestart churns an allocator, reserves what is live in a new one, and lets that one
// go on: counts agree, nothing overlaps, and every extent can be freed.
func testRestart(t conformance.T, f *subjects) {
	spaces := []alloc.Space{{ID: 1, Size: 64 * mib}, {ID: 2, Size: 96*mib + 12345}}
	sizes := map[alloc.SpaceID]uint64{1: spaces[0].Size, 2: spaces[1].Size}
	rng := rand.New(rand.NewPCG(7, 7))
	s := newSubject(t, f, spaces...)
	var held []alloc.Extent
	for round := range 3 {
		for range 6 {
			requests := make([]alloc.Request, 100)
			for i := range requests {
				requests[i] = randomRequest(rng)
			}
			for _, r := range s.alloc(requests...) {
				if r.Err == nil {
					held = append(held, r.Extent)
				}
			}
			rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			drop := held[:len(held)/2]
			allNil(t, s.free(drop...))
			held = append([]alloc.Extent{}, held[len(drop):]...)
		}
		noOverlap(t, sizes, held)

		next := newSubject(t, f, spaces...)
		rest := held
		for _, n := range []int{0, 1, len(rest) / 2} {
			allNil(t, next.reserve(rest[:n]...))
			rest = rest[n:]
		}
		allNil(t, next.reserve(rest...))
		for id := range sizes {
			was, is := s.stats(id), next.stats(id)
			was.LargestFree, is.LargestFree = 0, 0
			require.Equal(t, was, is, "round %d, space %d", round, id)
		}
		s = next
	}
	allNil(t, s.free(held...))
	for id := range sizes {
		assert.Zero(t, s.stats(id).Reserved)
	}
}

// randomRequest draws pages, small values and odd sizes.
func randomRequest(rng *rand.Rand) alloc.Request {
	r := alloc.Request{Candidates: []alloc.SpaceID{1, 2}}
	switch rng.IntN(4) {
	case 0:
		r.Size = 3_120_000
	case 1:
		r.Size = 643_000
	case 2:
		r.Size = 1 + rng.Uint64N(5000)
	default:
		r.Size = 1 + rng.Uint64N(2*mib)
	}
	if rng.IntN(3) == 0 {
		r.Align = 1 << rng.IntN(13)
	}
	if rng.IntN(2) == 0 {
		r.Candidates = []alloc.SpaceID{2, 1}
	}
	return r
}
