package alloctest

import (
	"fmt"
	"math/rand/v2"
	"slices"

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
	first.allNil(first.free(low))

	s := newSubject(t, f, space)
	s.reserve()
	s.allNil(s.reserve(a))
	before := s.stats(1)
	refused := func(what string, want errs.Code, e alloc.Extent) {
		s.code("Reserve of "+what, s.reserve(e)[0], want)
		if now := s.stats(1); now != before {
			s.failf("space 1 has %s after the refused Reserve of %s, and %s before", statsText(now), what, statsText(before))
		}
	}
	refused("an extent that is reserved", errs.InvalidWrite, a)
	refused("an extent that runs into one in use", errs.InvalidWrite,
		alloc.Extent{Space: 1, Offset: low.Offset, Size: a.Offset - low.Offset + 1})
	refused("an extent inside one in use", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: a.Offset + 32*kib, Size: 100})
	refused("an extent past the end", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 16 * mib, Size: 64 * kib})
	refused("an extent over the end", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 16*mib - 4*kib, Size: 64 * kib})
	refused("an end past 2^64", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: 64 * kib, Size: ^uint64(0)})
	refused("an offset near 2^64", errs.InvalidWrite, alloc.Extent{Space: 1, Offset: ^uint64(0) - 4095, Size: 64 * kib})
	refused("size 0", errs.NoAvailableHandle, alloc.Extent{Space: 1, Offset: 4 * mib})

	got := s.reserve(b, a)
	if got[0] != nil {
		s.failf("extent 0 of the batch is refused: %v: one that is refused does not spoil the others", got[0])
	}
	s.code("Reserve of an extent that is reserved", got[1], errs.InvalidWrite)
	s.same(1, first.stats(1), s.stats(1), "the earlier allocator had the same extents")
	s.allNil(s.free(a, b))
	s.code("Free of an extent that was freed before", s.free(a)[0], errs.InvalidWrite)
	s.holds(1, 0, 0, "all was freed")
}

// testReserveBatches reserves batches of each length, as a master does after a restart, and fills what is left.
func testReserveBatches(t conformance.T, f *subjects) {
	const size, page = 64 * mib, 16 * kib
	s := newSubject(t, f)
	held := newSubject(t, f, alloc.Space{ID: 1, Size: size}).pages(1, 1500, page, 0)
	for i, n := range []int{1, 2, 255, 256, 257, 1000} {
		id := alloc.SpaceID(i + 1)
		s.add(id, size)
		mine := make([]alloc.Extent, len(held))
		for i, e := range held {
			mine[i] = alloc.Extent{Space: id, Offset: e.Offset, Size: e.Size}
		}
		for batch := range slices.Chunk(mine[:min(len(mine), 3*n)], n) {
			s.allNil(s.reserve(batch...))
		}
		mine = mine[:min(len(mine), 3*n)]
		s.holds(id, len(mine), uint64(len(mine))*page, fmt.Sprintf("they were reserved in batches of %d", n))
		for {
			r := s.alloc(slices.Repeat([]alloc.Request{{Size: page, Candidates: []alloc.SpaceID{id}}}, 500)...)
			for _, r := range r {
				if r.Err == nil {
					mine = append(mine, r.Extent)
				}
			}
			if r[len(r)-1].Err != nil {
				break
			}
		}
		s.noOverlap(map[alloc.SpaceID]uint64{id: size}, mine)
		s.allNil(s.free(mine...))
		s.removeSpace(id)
	}
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
			s.allNil(s.free(drop...))
			held = append([]alloc.Extent{}, held[len(drop):]...)
		}
		s.noOverlap(sizes, held)

		next := newSubject(t, f, spaces...)
		rest := held
		for _, n := range []int{0, 1, len(rest) / 2} {
			next.allNil(next.reserve(rest[:n]...))
			rest = rest[n:]
		}
		next.allNil(next.reserve(rest...))
		for id := range sizes {
			next.same(id, s.stats(id), next.stats(id), fmt.Sprintf("the earlier allocator had the same extents in round %d", round))
		}
		s = next
	}
	s.allNil(s.free(held...))
	for id := range sizes {
		s.holds(id, 0, 0, "all was freed")
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
