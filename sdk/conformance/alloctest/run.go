package alloctest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Run holds the allocators of f to the contract. It makes about two dozen of them, with
// the default configuration, and about ten thousand calls.
func Run(t *testing.T, f alloc.Factory) {
	t.Run("component", func(t *testing.T) { rig.Component(t, f, plugin.KindAlloc, alloc.API(), f.New) })
	t.Run("spaces", func(t *testing.T) { testSpaces(t, f) })
	t.Run("alloc", func(t *testing.T) { testAlloc(t, f) })
	t.Run("align", func(t *testing.T) { testAlign(t, f) })
	t.Run("free", func(t *testing.T) { testFree(t, f) })
	t.Run("reserve", func(t *testing.T) { testReserve(t, f) })
	t.Run("restart", func(t *testing.T) { testRestart(t, f) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, f) })
	t.Run("model", func(t *testing.T) { testModel(t, f) })
	t.Run("batches", func(t *testing.T) { testBatches(t, f) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, f) })
}

// subject is an allocator under test. Its calls must succeed as a whole.
type subject struct {
	t require.TestingT
	a alloc.Allocator
}

func newSubject(tb testing.TB, f alloc.Factory, spaces ...alloc.Space) subject {
	tb.Helper()
	a, err := f.New(f.DefaultConfig())
	s := subject{t: tb, a: rig.Start(tb, a, err)}
	for _, sp := range spaces {
		s.add(sp.ID, sp.Size)
	}
	return s
}

func (s subject) add(id alloc.SpaceID, size uint64) {
	require.NoError(s.t, s.a.AddSpace(context.Background(), alloc.Space{ID: id, Size: size}), "AddSpace")
}

func (s subject) alloc(requests ...alloc.Request) []alloc.Result {
	results, err := s.a.Alloc(context.Background(), requests)
	require.NoError(s.t, err, "Alloc")
	require.Len(s.t, results, len(requests), "one result a request")
	for i, r := range results {
		if r.Err != nil {
			require.Zero(s.t, r.Extent, "an extent beside an error")
			continue
		}
		require.Equal(s.t, requests[i].Size, r.Extent.Size, "the extent has the size that was asked for")
		require.Contains(s.t, requests[i].Candidates, r.Extent.Space)
		if a := requests[i].Align; a > 0 {
			require.Zero(s.t, r.Extent.Offset%a, "alignment %d of offset %d", a, r.Extent.Offset)
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
	require.NoError(s.t, r.Err, "%d bytes of space %d", size, id)
	return r.Extent
}

func (s subject) free(extents ...alloc.Extent) []error {
	errs, err := s.a.Free(context.Background(), extents)
	require.NoError(s.t, err, "Free")
	return s.perItem(errs, len(extents))
}

func (s subject) reserve(extents ...alloc.Extent) []error {
	errs, err := s.a.Reserve(context.Background(), extents)
	require.NoError(s.t, err, "Reserve")
	return s.perItem(errs, len(extents))
}

// perItem checks the shape of an error list: nil, or one entry an item with an error
// among them.
func (s subject) perItem(errs []error, n int) []error {
	if errs == nil {
		return make([]error, n)
	}
	require.Len(s.t, errs, n, "nil or one entry an extent")
	bad := 0
	for _, err := range errs {
		if err != nil {
			bad++
		}
	}
	require.Positive(s.t, bad, "a list of errors without an error must be nil")
	return errs
}

func (s subject) stats(id alloc.SpaceID) alloc.Stats {
	st, err := s.a.Stats(context.Background(), id)
	require.NoError(s.t, err, "Stats")
	require.GreaterOrEqual(s.t, st.Reserved, st.Requested)
	require.LessOrEqual(s.t, st.Reserved, st.Size)
	require.LessOrEqual(s.t, st.LargestFree, st.Size-st.Reserved)
	return st
}

// allNil requires that no item failed.
func allNil(t require.TestingT, got []error) {
	for i, err := range got {
		require.NoError(t, err, "item %d", i)
	}
}

// code requires an error with one of the codes.
func code(t require.TestingT, err error, want ...errs.Code) {
	if assert.Error(t, err) {
		assert.Contains(t, want, errs.CodeOf(err), "%v", err)
	}
}
