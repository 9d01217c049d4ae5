package alloctest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/allocwire"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Option gives the suite what it cannot know.
type Option func(*options)

type options struct {
	config  func() plugin.Config
	without map[string]string
	settle  time.Duration // of rig.Released
	kill    func(a alloc.Allocator, replay func(context.Context, alloc.Allocator) error) error
}

// WithConfig makes every allocator of the suite from config(), which returns a fresh value,
// instead of the factory's defaults.
func WithConfig(config func() plugin.Config) Option {
	return func(o *options) { o.config = config }
}

// Without leaves out a check, by name, that cannot hold for what is tested, and says why.
func Without(check, why string) Option {
	return func(o *options) {
		if o.without == nil {
			o.without = map[string]string{}
		}
		o.without[check] = why
	}
}

// WithKill lets the suite end the process of an allocator, as a crash would. The
// supervisor starts it again and calls replay with the new one before others can use it.
func WithKill(kill func(a alloc.Allocator, replay func(context.Context, alloc.Allocator) error) error) Option {
	return func(o *options) { o.kill = kill }
}

// Run checks the allocators of f against the contract, each check as a subtest of t. It makes about
// two dozen of them and about ten thousand calls.
func Run(t *testing.T, f alloc.Factory, opts ...Option) {
	conformance.Test(t, Suite(f, opts...))
}

// ThroughWire returns a factory like f whose allocators run behind gRPC connections, as between
// processes. New configures the far side and so reports what its factory reports. The
// connections end with t.
func ThroughWire(t testing.TB, f alloc.Factory) alloc.Factory {
	return wiretest.Factory(t, allocwire.Kind(), f)
}

// Suite returns the checks for the allocators that f makes.
func Suite(f alloc.Factory, opts ...Option) conformance.Suite {
	s := &subjects{f: f}
	for _, set := range opts {
		set(&s.options)
	}
	out := conformance.Suite{Name: plugin.KindAlloc, Plugin: f.Manifest(), Cases: s.cases()}
	for i, c := range out.Cases {
		out.Cases[i].Skip = s.without[c.Name]
	}
	return out
}

// subjects makes allocators under test.
type subjects struct {
	options
	f alloc.Factory
}

func (s *subjects) settings(conformance.TB) plugin.Config {
	if s.config != nil {
		return s.config()
	}
	return s.f.DefaultConfig()
}

// subject is an allocator under test whose calls must succeed as a whole.
type subject struct {
	t require.TestingT
	a alloc.Allocator
}

func newSubject(tb conformance.TB, f *subjects, spaces ...alloc.Space) subject {
	tb.Helper()
	a, err := f.f.New(f.settings(tb))
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
