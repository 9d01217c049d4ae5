package alloctest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// subject is an allocator under test whose calls must succeed as a whole, each within patience.
type subject struct {
	t        require.TestingT
	a        alloc.Allocator
	patience time.Duration
}

func newSubject(tb conformance.TB, f *subjects, spaces ...alloc.Space) subject {
	tb.Helper()
	a, err := f.f.New(f.settings(tb))
	s := subject{t: tb, a: rig.Start(tb, a, err), patience: cmp.Or(f.patience, patience)}
	for _, sp := range spaces {
		s.add(sp.ID, sp.Size)
	}
	return s
}

// call makes a call. what names it in a failure and in a sequence of calls.
func (s subject) call(what func() string, f func(context.Context) error) {
	if seq, ok := s.t.(*rig.Sequence); ok {
		seq.Note("%s", what())
	}
	var err error
	rig.Within(s.t, s.patience, what, func() { err = f(context.Background()) })
	if err != nil {
		s.failf("%s fails: %v", what(), err)
	}
}

// failf ends the check.
func (s subject) failf(format string, args ...any) {
	s.t.Errorf(format, args...)
	s.t.FailNow()
}

func (s subject) add(id alloc.SpaceID, size uint64) {
	s.call(func() string { return fmt.Sprintf("AddSpace of space %d with %d bytes", id, size) },
		func(ctx context.Context) error { return s.a.AddSpace(ctx, alloc.Space{ID: id, Size: size}) })
}

func (s subject) removeSpace(id alloc.SpaceID) {
	s.call(func() string { return fmt.Sprintf("RemoveSpace of space %d", id) },
		func(ctx context.Context) error { return s.a.RemoveSpace(ctx, id) })
}

// alloc makes requests, and then uses their memory again, as a caller may.
func (s subject) alloc(requests ...alloc.Request) (results []alloc.Result) {
	own := slices.Clone(requests)
	for i := range own {
		own[i].Candidates = slices.Clone(own[i].Candidates)
	}
	s.call(func() string { return "Alloc of " + listed(requests, requestText) }, func(ctx context.Context) (err error) {
		results, err = s.a.Alloc(ctx, own)
		return err
	})
	for i := range own {
		clear(own[i].Candidates)
		own[i] = alloc.Request{}
	}
	if len(results) != len(requests) {
		s.failf("Alloc of %d requests returns %d results", len(requests), len(results))
	}
	for i, r := range results {
		want := requests[i]
		switch {
		case r.Err != nil && r.Extent != (alloc.Extent{}):
			s.failf("request %d (%s) returns %s beside the error %v", i, requestText(want), extentText(r.Extent), r.Err)
		case r.Err != nil:
		case r.Extent.Size != want.Size:
			s.failf("request %d (%s) returns %s: the extent has the size that was asked for", i, requestText(want), extentText(r.Extent))
		case !slices.Contains(want.Candidates, r.Extent.Space):
			s.failf("request %d (%s) returns %s: the space is no candidate", i, requestText(want), extentText(r.Extent))
		case want.Align > 0 && r.Extent.Offset%want.Align != 0:
			s.failf("request %d (%s) returns %s: the offset is no multiple of the alignment", i, requestText(want), extentText(r.Extent))
		}
	}
	return results
}

// one asks for one extent of one space.
func (s subject) one(id alloc.SpaceID, size uint64) alloc.Result {
	return s.alloc(alloc.Request{Size: size, Candidates: []alloc.SpaceID{id}})[0]
}

// must is one that has to succeed.
func (s subject) must(id alloc.SpaceID, size uint64) alloc.Extent {
	r := s.one(id, size)
	if r.Err != nil {
		s.failf("Alloc of %d bytes of space %d, which has space for them, fails: %v", size, id, r.Err)
	}
	return r.Extent
}

// pages allocates n extents of one size, which must all fit.
func (s subject) pages(id alloc.SpaceID, n int, size, align uint64) []alloc.Extent {
	out := make([]alloc.Extent, n)
	for i, r := range s.alloc(slices.Repeat([]alloc.Request{{Size: size, Align: align, Candidates: []alloc.SpaceID{id}}}, n)...) {
		if r.Err != nil {
			s.failf("request %d of %d for %d bytes of space %d, which has space for all, fails: %v", i, n, size, id, r.Err)
		}
		out[i] = r.Extent
	}
	return out
}

func (s subject) free(extents ...alloc.Extent) []error {
	return s.each("Free", s.a.Free, extents)
}

func (s subject) reserve(extents ...alloc.Extent) []error {
	return s.each("Reserve", s.a.Reserve, extents)
}

// each makes a call for extents and checks the shape of its errors: nil, or an entry for each extent with an error among
// them.
func (s subject) each(name string, f func(context.Context, []alloc.Extent) ([]error, error), extents []alloc.Extent) (bad []error) {
	own := slices.Clone(extents)
	s.call(func() string { return name + " of " + listed(extents, extentText) }, func(ctx context.Context) (err error) {
		bad, err = f(ctx, own)
		return err
	})
	clear(own)
	switch {
	case bad == nil:
		return make([]error, len(extents))
	case len(bad) != len(extents):
		s.failf("%s of %d extents returns %d errors: it returns nil, or an entry for each extent", name, len(extents), len(bad))
	case !slices.ContainsFunc(bad, func(err error) bool { return err != nil }):
		s.failf("%s of %d extents returns a list of errors without an error: it returns nil then", name, len(extents))
	}
	return bad
}

func (s subject) stats(id alloc.SpaceID) (st alloc.Stats) {
	s.call(func() string { return fmt.Sprintf("Stats of space %d", id) }, func(ctx context.Context) (err error) {
		st, err = s.a.Stats(ctx, id)
		return err
	})
	switch {
	case st.Reserved < st.Requested:
		s.failf("Stats of space %d: %s: Reserved is less than Requested", id, statsText(st))
	case st.Reserved > st.Size:
		s.failf("Stats of space %d: %s: Reserved is more than Size", id, statsText(st))
	case st.LargestFree > st.Size-st.Reserved:
		s.failf("Stats of space %d: %s: LargestFree is more than what is free", id, statsText(st))
	}
	return st
}

// same requires that two descriptions agree, but for the largest free size.
func (s subject) same(id alloc.SpaceID, want, got alloc.Stats, why string) {
	want.LargestFree, got.LargestFree = 0, 0
	if got != want {
		s.failf("space %d has %s, and should have %s: %s", id, statsText(got), statsText(want), why)
	}
}

// holds requires the counts of a space.
func (s subject) holds(id alloc.SpaceID, extents int, requested uint64, why string) {
	if st := s.stats(id); st.Extents != uint64(extents) || st.Requested != requested || (extents == 0 && st.Reserved != 0) {
		s.failf("space %d has %s, and should have %d extents with %d bytes requested: %s", id, statsText(st), extents, requested, why)
	}
}

// allNil requires that no item failed.
func (s subject) allNil(got []error) {
	for i, err := range got {
		if err != nil {
			s.failf("extent %d of the batch is refused: %v", i, err)
		}
	}
}

// code requires an error with one of the codes.
func (s subject) code(what string, err error, want ...errs.Code) {
	if err == nil {
		s.failf("%s succeeds, and should fail with %s", what, codesText(want))
	}
	if !slices.Contains(want, errs.CodeOf(err)) {
		s.failf("%s fails with %s, and should fail with %s: %v", what, errs.CodeOf(err), codesText(want), err)
	}
}

func codesText(codes []errs.Code) string {
	out := make([]string, len(codes))
	for i, c := range codes {
		out[i] = c.String()
	}
	return strings.Join(out, " or ")
}

func statsText(st alloc.Stats) string {
	return fmt.Sprintf("%d extents, %d bytes requested, %d reserved, %d of %d free in one piece", st.Extents, st.Requested, st.Reserved, st.LargestFree, st.Size)
}

func extentText(e alloc.Extent) string {
	return fmt.Sprintf("%d bytes at %d of space %d", e.Size, e.Offset, e.Space)
}

func requestText(r alloc.Request) string {
	text := fmt.Sprintf("%d bytes of space %s", r.Size, strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Candidates), " ", " or "), "[]"))
	if r.Align > 1 {
		text += fmt.Sprintf(", aligned to %d", r.Align)
	}
	return text
}

// listed names the items of a batch, a long one by its first.
func listed[T any](items []T, text func(T) string) string {
	const most = 6
	if len(items) == 0 {
		return "nothing"
	}
	var out []string
	for _, x := range items[:min(len(items), most)] {
		out = append(out, text(x))
	}
	if more := len(items) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
