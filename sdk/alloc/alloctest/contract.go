package alloctest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

func testSpaces(t conformance.T, f *subjects) {
	ctx := context.Background()
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 4 * mib})

	s.code("AddSpace of size 0", s.a.AddSpace(ctx, alloc.Space{ID: 2}), errs.InvalidParams)
	held := s.must(1, 64*kib)
	before := s.stats(1)
	s.code("AddSpace of space 1, which is in use,", s.a.AddSpace(ctx, alloc.Space{ID: 1, Size: mib}), errs.InvalidParams)
	s.same(1, before, s.stats(1), "a refused AddSpace changes nothing")

	unknown := func(id alloc.SpaceID, e alloc.Extent) {
		_, err := s.a.Stats(ctx, id)
		what := fmt.Sprintf(" of space %d, which is unknown,", id)
		s.code("Stats"+what, err, errs.SegmentNotFound)
		s.code("RemoveSpace"+what, s.a.RemoveSpace(ctx, id), errs.SegmentNotFound)
		s.code("Alloc"+what, s.one(id, 1).Err, errs.SegmentNotFound)
		s.code("Free"+what, s.free(e)[0], errs.SegmentNotFound)
		s.code("Reserve"+what, s.reserve(e)[0], errs.SegmentNotFound)
	}
	unknown(2, alloc.Extent{Space: 2, Size: 1})
	s.add(3, 4*mib)
	s.removeSpace(1) // A space with live extents can be removed.
	unknown(1, held)
	s.must(3, 64*kib)

	other := newSubject(t, f)
	other.code("Alloc of a space of another allocator", other.one(3, 1).Err, errs.SegmentNotFound)
}

func testAlloc(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 4 * mib}, alloc.Space{ID: 2, Size: 16 * mib})
	fresh := s.stats(1)
	s.same(1, alloc.Stats{Size: 4 * mib}, fresh, "it is new")
	if fresh.LargestFree == 0 {
		s.failf("space 1 has %s: a new space has free bytes", statsText(fresh))
	}

	t.Run("the first candidate that fits is taken", func(t conformance.T) {
		s := subject{t: t, a: s.a, patience: s.patience}
		rs := s.alloc(
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{2, 1}},
			alloc.Request{Size: 8 * mib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{99, 1}})
		want := []alloc.SpaceID{1, 2, 2, 1}
		for i, r := range rs {
			if r.Err != nil {
				s.failf("request %d fails, and space %d is a candidate that fits: %v", i, want[i], r.Err)
			}
			if r.Extent.Space != want[i] {
				s.failf("request %d returns %s, and space %d is the first candidate that fits", i, extentText(r.Extent), want[i])
			}
		}
		s.allNil(s.free(rs[0].Extent, rs[1].Extent, rs[2].Extent, rs[3].Extent))
	})
	t.Run("a batch answers each request", func(t conformance.T) {
		s := subject{t: t, a: s.a, patience: s.patience}
		rs := s.alloc(
			alloc.Request{Size: 0, Candidates: []alloc.SpaceID{1}},
			alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{1}},
			alloc.Request{Size: 32 * mib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{99}},
			alloc.Request{Size: 8 * kib, Candidates: []alloc.SpaceID{1}})
		s.code("a request for 0 bytes", rs[0].Err, errs.InvalidParams)
		s.code("a request for more than any space has", rs[2].Err, errs.NoAvailableHandle, errs.InvalidParams)
		s.code("a request for an unknown space", rs[3].Err, errs.SegmentNotFound)
		for _, i := range []int{1, 4} {
			if rs[i].Err != nil {
				s.failf("request %d of the batch fails, and a refused request must not spoil the others: %v", i, rs[i].Err)
			}
		}
		s.allNil(s.free(rs[1].Extent, rs[4].Extent))
	})
	t.Run("a full space refuses", func(t conformance.T) {
		s := subject{t: t, a: s.a, patience: s.patience}
		var got []alloc.Extent
		for len(got) <= 64 {
			r := s.one(1, 64*kib)
			if r.Err != nil {
				s.code("Alloc of a full space", r.Err, errs.NoAvailableHandle)
				break
			}
			got = append(got, r.Extent)
		}
		if len(got) == 0 || len(got) > 64 {
			s.failf("%d extents of 64 KiB fit into a space of 4 MiB", len(got))
		}
		if st := s.stats(1); st.LargestFree >= 64*kib {
			s.failf("space 1 has %s, and 64 KiB were refused", statsText(st))
		}
		s.noOverlap(map[alloc.SpaceID]uint64{1: 4 * mib}, got)
		s.allNil(s.free(got[0]))
		s.allNil(s.free(s.must(1, 64*kib)))
		s.allNil(s.free(got[1:]...))
	})
	t.Run("the largest free size is given", func(t conformance.T) {
		s := subject{t: t, a: s.a, patience: s.patience}
		held := s.must(1, 96*kib)
		e := s.must(1, s.stats(1).LargestFree)
		s.allNil(s.free(e, held))
		s.holds(1, 0, 0, "all was freed")
	})
}

func testAlign(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 64 * mib}, alloc.Space{ID: 2, Size: 1 << 44})
	for _, bad := range []uint64{3, 6, 4095, 4097, 1<<63 + 1} {
		r := s.alloc(alloc.Request{Size: 64, Align: bad, Candidates: []alloc.SpaceID{1}})[0]
		s.code(fmt.Sprintf("a request with the alignment %d", bad), r.Err, errs.InvalidParams)
	}
	s.aligned(1, 64*mib, 1, 100, 4*kib, 5000, 643_000, 3_120_000)
	s.aligned(2, 1<<44, 64*mib+1, 1<<30+17, 1<<32+4095, 1<<36+1)
	for align := uint64(8192); align != 0; align *= 2 {
		r := s.alloc(alloc.Request{Size: 64, Align: align, Candidates: []alloc.SpaceID{1}})[0]
		if r.Err != nil {
			s.code(fmt.Sprintf("a request with the alignment %d", align), r.Err, errs.InvalidParams, errs.NoAvailableHandle)
			continue
		}
		s.allNil(s.free(r.Extent))
	}
	s.holds(1, 0, 0, "all was freed")
}

// aligned asks for sizes with each alignment that an allocator must honour, with small extents between them.
func (s subject) aligned(id alloc.SpaceID, space uint64, sizes ...uint64) {
	for _, size := range sizes {
		var got []alloc.Extent
		for align := uint64(0); align <= 4096; align = max(1, align*2) {
			r := s.alloc(alloc.Request{Size: size, Align: align, Candidates: []alloc.SpaceID{id}})[0]
			if r.Err != nil {
				s.failf("Alloc of %d bytes with the alignment %d fails, and an allocator honours at least 4096: %v", size, align, r.Err)
			}
			got = append(got, r.Extent)
			if align <= 1 {
				got = append(got, s.must(id, 1)) // Makes offsets uneven.
			}
		}
		s.noOverlap(map[alloc.SpaceID]uint64{id: space}, got)
		s.allNil(s.free(got...))
	}
}

func testFree(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 16 * mib}, alloc.Space{ID: 2, Size: 16 * mib})
	a, b := s.must(1, 64*kib), s.must(1, 64*kib)
	before := s.stats(1)
	refused := func(what string, e alloc.Extent) {
		s.code("Free of "+what, s.free(e)[0], errs.InvalidWrite)
		if now := s.stats(1); now != before {
			s.failf("space 1 has %s after the refused Free of %s, and %s before", statsText(now), what, statsText(before))
		}
	}
	refused("a made-up offset", alloc.Extent{Space: 1, Offset: a.Offset + kib, Size: a.Size})
	refused("an offset far out", alloc.Extent{Space: 1, Offset: 1 << 60, Size: a.Size})
	refused("a smaller size", alloc.Extent{Space: 1, Offset: a.Offset, Size: a.Size - 1})
	refused("a larger size", alloc.Extent{Space: 1, Offset: a.Offset, Size: 2 * a.Size})
	refused("size 0", alloc.Extent{Space: 1, Offset: a.Offset})
	refused("the largest size", alloc.Extent{Space: 1, Offset: a.Offset, Size: ^uint64(0)})
	s.code("Free of an extent of another space", s.free(alloc.Extent{Space: 2, Offset: a.Offset, Size: a.Size})[0], errs.InvalidWrite)

	s.allNil(s.free(a))
	s.holds(1, 1, 64*kib, "one of two extents was freed")
	before = s.stats(1)
	refused("an extent that was freed before", a)

	c := s.must(1, 64*kib)
	got := s.free(b, b, c, b)
	for i, bad := range []bool{false, true, false, true} {
		if bad {
			s.code("Free of an extent that the batch names before", got[i], errs.InvalidWrite)
		} else if got[i] != nil {
			s.failf("extent %d of the batch is refused: %v: one that is refused does not spoil the others", i, got[i])
		}
	}
	s.holds(1, 0, 0, "all was freed")
	s.free()
}

// testMerged fills a space with pages and frees them in a random order.
func testMerged(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 16 * mib})
	fresh := s.stats(1).LargestFree
	rng := rand.New(rand.NewPCG(5, 6))
	for _, size := range []uint64{16 * kib, 100_003} {
		var got []alloc.Extent
		for r := s.one(1, size); r.Err == nil; r = s.one(1, size) {
			got = append(got, r.Extent)
		}
		rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		s.allNil(s.free(got...))
		s.holds(1, 0, 0, "all was freed")
		if st := s.stats(1); st.LargestFree < fresh {
			s.failf("space 1 has %s after %d extents of %d bytes were freed, and had %d free in one piece when it was new", statsText(st), len(got), size, fresh)
		}
		s.allNil(s.free(s.must(1, fresh)))
	}
}
