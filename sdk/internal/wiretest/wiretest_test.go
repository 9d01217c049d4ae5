package wiretest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type config struct {
	Limit int `json:"limit"`
}

func (c *config) Validate() error {
	if c.Limit < 1 {
		return errors.New("limit must be at least 1")
	}
	return nil
}

func manifest(kind string) plugin.Manifest {
	return plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: kind, Name: "counting"}, Version: "0.1.0", API: []uint{1},
		Summary: "counts calls", Stability: plugin.Experimental,
	}
}

// counting is a policy and an allocator that only counts.
type counting struct {
	evict.Policy
	alloc.Allocator
	limit  int
	events atomic.Int64
	stops  *atomic.Int64
}

func (c *counting) Start(context.Context, plugin.Host) error { return nil }
func (c *counting) Stop(context.Context) error               { c.stops.Add(1); return nil }

type policy struct{ *counting }

func (p policy) Start(ctx context.Context, h plugin.Host) error { return p.counting.Start(ctx, h) }
func (p policy) Stop(ctx context.Context) error                 { return p.counting.Stop(ctx) }
func (p policy) Record(_ context.Context, e []evict.Event) error {
	p.events.Add(int64(len(e)))
	return nil
}
func (p policy) Stats(context.Context) (evict.Stats, error) {
	return evict.Stats{Objects: uint64(p.events.Load()), Bytes: uint64(p.limit)}, nil
}

type allocator struct{ *counting }

func (a allocator) Start(ctx context.Context, h plugin.Host) error { return a.counting.Start(ctx, h) }
func (a allocator) Stop(ctx context.Context) error                 { return a.counting.Stop(ctx) }
func (a allocator) Stats(context.Context, alloc.SpaceID) (alloc.Stats, error) {
	return alloc.Stats{}, errs.New(errs.SegmentNotFound, "counting: stats", "no such space")
}

func TestEvictGoesThroughTheWire(t *testing.T) {
	var stops atomic.Int64
	direct := evict.Define(manifest("evict"), func() *config { return &config{Limit: 7} }, func(c *config) (evict.Policy, error) {
		return policy{&counting{limit: c.Limit, stops: &stops}}, nil
	})
	ctx := t.Context()
	t.Run("wired", func(t *testing.T) {
		f := evicttest.ThroughWire(t, direct)
		assert.Equal(t, direct.Manifest(), f.Manifest())
		p, err := f.New(&config{Limit: 9})
		require.NoError(t, err)
		_, isDirect := p.(policy)
		assert.False(t, isDirect)
		require.NoError(t, p.Start(ctx, nil))
		require.NoError(t, p.Record(ctx, make([]evict.Event, 0)))
		require.NoError(t, p.Record(ctx, []evict.Event{{Op: evict.Insert, ID: 1}, {Op: evict.Access, ID: 1}}))
		st, err := p.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, evict.Stats{Objects: 2, Bytes: 9}, st)

		other, err := f.New(f.DefaultConfig())
		require.NoError(t, err)
		st, err = other.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, evict.Stats{Bytes: 7}, st, "every New makes an object of its own")

		_, err = f.New(&config{})
		assert.ErrorContains(t, err, "limit must be at least 1")
		_, err = f.New(&plugin.NoConfig{})
		assert.ErrorContains(t, err, "configuration has type")
	})
	assert.EqualValues(t, 2, stops.Load(), "the end of the test stops what New made")
}

func TestAllocGoesThroughTheWire(t *testing.T) {
	var stops atomic.Int64
	f := alloctest.ThroughWire(t, alloc.Define(manifest("alloc"), func() *config { return &config{Limit: 1} }, func(*config) (alloc.Allocator, error) {
		return allocator{&counting{stops: &stops}}, nil
	}))
	a, err := f.New(f.DefaultConfig())
	require.NoError(t, err)
	_, err = a.Stats(t.Context(), 4)
	assert.ErrorIs(t, err, errs.SegmentNotFound.Err())
	require.NoError(t, a.Stop(t.Context()))
	require.NoError(t, a.Stop(t.Context()))
}
