package alloctest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

	code(t, s.a.AddSpace(ctx, alloc.Space{ID: 2}), errs.InvalidParams)
	held := s.must(1, 64*kib)
	before := s.stats(1)
	code(t, s.a.AddSpace(ctx, alloc.Space{ID: 1, Size: mib}), errs.InvalidParams)
	assert.Equal(t, before, s.stats(1), "a refused AddSpace changes nothing")

	_, err := s.a.Stats(ctx, 2)
	code(t, err, errs.SegmentNotFound)
	code(t, s.a.RemoveSpace(ctx, 2), errs.SegmentNotFound)
	code(t, s.one(2, 1).Err, errs.SegmentNotFound)
	code(t, s.free(alloc.Extent{Space: 2, Size: 1})[0], errs.SegmentNotFound)
	code(t, s.reserve(alloc.Extent{Space: 2, Size: 1})[0], errs.SegmentNotFound)

	s.add(3, 4*mib)
	require.NoError(t, s.a.RemoveSpace(ctx, 1), "a space with live extents can be removed")
	code(t, s.free(held)[0], errs.SegmentNotFound)
	code(t, s.one(1, 1).Err, errs.SegmentNotFound)
	_, err = s.a.Stats(ctx, 1)
	code(t, err, errs.SegmentNotFound)
	code(t, s.a.RemoveSpace(ctx, 1), errs.SegmentNotFound)
	s.must(3, 64*kib)

	other := newSubject(t, f)
	code(t, other.one(3, 1).Err, errs.SegmentNotFound)
}

func testAlloc(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 4 * mib}, alloc.Space{ID: 2, Size: 16 * mib})
	fresh := s.stats(1)
	assert.Equal(t, alloc.Stats{Size: 4 * mib, LargestFree: fresh.LargestFree}, fresh, "a new space holds nothing")
	require.Positive(t, fresh.LargestFree)

	t.Run("the first candidate that fits is taken", func(t conformance.T) {
		s := subject{t: t, a: s.a}
		rs := s.alloc(
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{2, 1}},
			alloc.Request{Size: 8 * mib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 64 * kib, Candidates: []alloc.SpaceID{99, 1}})
		want := []alloc.SpaceID{1, 2, 2, 1}
		for i, r := range rs {
			require.NoError(t, r.Err)
			assert.Equal(t, want[i], r.Extent.Space, "request %d", i)
		}
		allNil(t, s.free(rs[0].Extent, rs[1].Extent, rs[2].Extent, rs[3].Extent))
	})
	t.Run("a batch answers each request", func(t conformance.T) {
		s := subject{t: t, a: s.a}
		rs := s.alloc(
			alloc.Request{Size: 0, Candidates: []alloc.SpaceID{1}},
			alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{1}},
			alloc.Request{Size: 32 * mib, Candidates: []alloc.SpaceID{1, 2}},
			alloc.Request{Size: 4 * kib, Candidates: []alloc.SpaceID{99}},
			alloc.Request{Size: 8 * kib, Candidates: []alloc.SpaceID{1}})
		code(t, rs[0].Err, errs.InvalidParams)
		require.NoError(t, rs[1].Err)
		code(t, rs[2].Err, errs.NoAvailableHandle, errs.InvalidParams)
		code(t, rs[3].Err, errs.SegmentNotFound)
		require.NoError(t, rs[4].Err)
		allNil(t, s.free(rs[1].Extent, rs[4].Extent))
	})
	t.Run("a full space refuses", func(t conformance.T) {
		s := subject{t: t, a: s.a}
		var got []alloc.Extent
		for len(got) <= 64 {
			r := s.one(1, 64*kib)
			if r.Err != nil {
				code(t, r.Err, errs.NoAvailableHandle)
				break
			}
			got = append(got, r.Extent)
		}
		require.LessOrEqual(t, len(got), 64, "more extents than the space has bytes for")
		require.NotEmpty(t, got)
		assert.Less(t, s.stats(1).LargestFree, uint64(64*kib))
		noOverlap(t, map[alloc.SpaceID]uint64{1: 4 * mib}, got)
		allNil(t, s.free(got[0]))
		allNil(t, s.free(s.must(1, 64*kib)))
		allNil(t, s.free(got[1:]...))
	})
	t.Run("the largest free size is given", func(t conformance.T) {
		s := subject{t: t, a: s.a}
		held := s.must(1, 96*kib)
		e := s.must(1, s.stats(1).LargestFree)
		allNil(t, s.free(e, held))
		end := s.stats(1)
		assert.Equal(t, alloc.Stats{Size: 4 * mib, LargestFree: end.LargestFree}, end, "what was freed counts no more")
	})
}

func testAlign(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 64 * mib})
	for _, bad := range []uint64{3, 6, 4095, 4097, 1<<63 + 1} {
		r := s.alloc(alloc.Request{Size: 64, Align: bad, Candidates: []alloc.SpaceID{1}})[0]
		code(t, r.Err, errs.InvalidParams)
	}
	var got []alloc.Extent
	for _, size := range []uint64{1, 100, 4 * kib, 5000, 643_000, 3_120_000} {
		for align := uint64(0); align <= 4096; align = max(1, align*2) {
			r := s.alloc(alloc.Request{Size: size, Align: align, Candidates: []alloc.SpaceID{1}})[0]
			require.NoError(t, r.Err, "%d bytes, alignment %d", size, align)
			got = append(got, r.Extent)
			if align > 1 {
				continue // the small sizes in between make offsets uneven
			}
			got = append(got, s.must(1, 1))
		}
		noOverlap(t, map[alloc.SpaceID]uint64{1: 64 * mib}, got)
		allNil(t, s.free(got...))
		got = got[:0]
	}
	for align := uint64(8192); align != 0; align *= 2 {
		r := s.alloc(alloc.Request{Size: 64, Align: align, Candidates: []alloc.SpaceID{1}})[0]
		if r.Err != nil {
			code(t, r.Err, errs.InvalidParams, errs.NoAvailableHandle)
			continue
		}
		allNil(t, s.free(r.Extent))
	}
	assert.Zero(t, s.stats(1).Extents)
}

func testFree(t conformance.T, f *subjects) {
	s := newSubject(t, f, alloc.Space{ID: 1, Size: 16 * mib}, alloc.Space{ID: 2, Size: 16 * mib})
	a, b := s.must(1, 64*kib), s.must(1, 64*kib)
	before := s.stats(1)
	refused := func(what string, e alloc.Extent) {
		code(t, s.free(e)[0], errs.InvalidWrite)
		assert.Equal(t, before, s.stats(1), "%s changes nothing", what)
	}
	refused("a made-up offset", alloc.Extent{Space: 1, Offset: a.Offset + kib, Size: a.Size})
	refused("an offset far out", alloc.Extent{Space: 1, Offset: 1 << 60, Size: a.Size})
	refused("a smaller size", alloc.Extent{Space: 1, Offset: a.Offset, Size: a.Size - 1})
	refused("a larger size", alloc.Extent{Space: 1, Offset: a.Offset, Size: 2 * a.Size})
	refused("size 0", alloc.Extent{Space: 1, Offset: a.Offset})
	refused("the largest size", alloc.Extent{Space: 1, Offset: a.Offset, Size: ^uint64(0)})
	code(t, s.free(alloc.Extent{Space: 2, Offset: a.Offset, Size: a.Size})[0], errs.InvalidWrite)

	allNil(t, s.free(a))
	before = s.stats(1)
	assert.Equal(t, uint64(1), before.Extents)
	assert.Equal(t, uint64(64*kib), before.Requested)
	refused("a double free", a)

	c := s.must(1, 64*kib)
	got := s.free(b, b, c, b)
	require.NoError(t, got[0])
	code(t, got[1], errs.InvalidWrite)
	require.NoError(t, got[2])
	code(t, got[3], errs.InvalidWrite)
	end := s.stats(1)
	assert.Equal(t, alloc.Stats{Size: 16 * mib, LargestFree: end.LargestFree}, end)
	assert.Empty(t, s.free())
}
