package allocwire

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func requests(n int) []alloc.Request {
	out := make([]alloc.Request, n)
	for i := range out {
		out[i] = alloc.Request{Size: uint64(i%7 + 1), Align: 8, Candidates: []alloc.SpaceID{3, 4}}
	}
	return out
}

func TestAllocLargeBatches(t *testing.T) {
	const n = 20_000
	a := dialBump(t, newBump(), wire.ClientOptions{})
	ctx := t.Context()
	require.NoError(t, a.AddSpace(ctx, alloc.Space{ID: 3, Size: 1 << 40}))
	rs := requests(n)
	rs[5].Candidates = nil
	rs[n-1].Candidates = make([]alloc.SpaceID, maxSpaces+1)
	results, err := a.Alloc(ctx, rs)
	require.NoError(t, err)
	require.Len(t, results, n)
	assert.ErrorIs(t, results[5].Err, errs.NoAvailableHandle.Err())
	assert.ErrorIs(t, results[n-1].Err, errs.InvalidParams.Err())
	extents := given(results)
	require.Len(t, extents, n-2)
	for i, r := range results {
		if r.Err == nil {
			require.Equal(t, rs[i].Size, r.Extent.Size, "answers are in order")
		}
	}

	items, err := a.Free(ctx, extents)
	require.NoError(t, err)
	assert.Nil(t, items)

	// One double free, in the last part.
	last := len(extents) - 1
	items, err = a.Reserve(ctx, extents[:last])
	require.NoError(t, err)
	assert.Nil(t, items)
	items, err = a.Free(ctx, extents)
	require.NoError(t, err)
	require.Len(t, items, len(extents))
	for i, e := range items[:last] {
		require.NoError(t, e, i)
	}
	assert.ErrorIs(t, items[last], errs.InvalidWrite.Err())
}

func TestAllocSingleCalls(t *testing.T) {
	a := dialBump(t, newBump(), wire.ClientOptions{})
	ctx := t.Context()
	require.NoError(t, a.AddSpace(ctx, alloc.Space{ID: 1, Size: 100}))
	assert.ErrorIs(t, a.AddSpace(ctx, alloc.Space{ID: 1, Size: 100}), errs.InvalidParams.Err())
	st, err := a.Stats(ctx, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 5, st.LargestFree)
	_, err = a.Stats(ctx, 2)
	assert.ErrorIs(t, err, errs.SegmentNotFound.Err())
	assert.ErrorIs(t, a.RemoveSpace(ctx, 2), errs.SegmentNotFound.Err())
	require.NoError(t, a.RemoveSpace(ctx, 1))
}

// TestAbandonedExtentsAreFreed checks that a caller that stops waiting leaves no extents allocated
// of which the host does not know.
func TestAbandonedExtentsAreFreed(t *testing.T) {
	b := newBump()
	b.gate = make(chan struct{})
	a := dialBump(t, b, wire.ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	errc := make(chan error)
	go func() {
		_, err := a.Alloc(ctx, requests(maxItems+1))
		errc <- err
	}()
	b.gate <- struct{}{} // The first message is answered, the second waits.
	cancel()
	assert.ErrorIs(t, <-errc, context.Canceled)
	close(b.gate)
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.next[3] > 0 && len(b.live) == 0
	}, 30*time.Second, time.Millisecond)
}

// TestLyingAllocator checks that the client refuses extents that were not requested. With them the
// master would overwrite other objects.
func TestLyingAllocator(t *testing.T) {
	for name, lie := range map[string]func(*alloc.Extent){
		"other size":   func(e *alloc.Extent) { e.Size++ },
		"other space":  func(e *alloc.Extent) { e.Space = 77 },
		"not aligned":  func(e *alloc.Extent) { e.Offset++ },
		"past the end": func(e *alloc.Extent) { e.Offset = 1<<64 - 8; e.Size = 1<<63 + 1 },
		"zero size":    func(e *alloc.Extent) { e.Size = 0 },
	} {
		b := newBump()
		b.lie = lie
		a := dialBump(t, b, wire.ClientOptions{})
		results, err := a.Alloc(t.Context(), requests(1))
		require.NoError(t, err, name)
		assert.ErrorIs(t, results[0].Err, errs.Internal.Err(), name)
		assert.Zero(t, results[0].Extent, name)
	}
}

func TestMalformedAllocMessages(t *testing.T) {
	_, err := decodeResults("alloc/x: alloc", &allocv1.AllocResponse{}, requests(1))
	assert.ErrorIs(t, err, errs.InvalidParams.Err(), "too few results")
	out, err := decodeResults("alloc/x: alloc", &allocv1.AllocResponse{Results: []*allocv1.AllocResult{{}}}, requests(1))
	require.NoError(t, err)
	assert.Error(t, out[0].Err, "neither extent nor error")
	_, err = decodeErrors("x", []*pluginv1.Error{{Code: -1}}, 2)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	items, err := decodeErrors("x", []*pluginv1.Error{{}, nil}, 2)
	require.NoError(t, err)
	assert.Nil(t, items)
	_, err = decodeItems(&allocv1.AllocRequest{Items: make([]*allocv1.AllocItem, maxItems+1)})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = decodeItems(&allocv1.AllocRequest{Items: []*allocv1.AllocItem{{Candidates: make([]uint64, maxSpaces+1)}}})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = decodeExtents("x", make([]*allocv1.Extent, maxItems+1))
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
}

// TestServerTakesBackWhatNobodyHearsOf: the caller's time ran out while the allocator
// allocated.
func TestServerTakesBackWhatNobodyHearsOf(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	b := newBump()
	as := &server{object: func() (alloc.Allocator, error) { return b, nil }}
	_, err := as.Alloc(late, encodeItems(requests(3)))
	assert.Error(t, err)
	assert.Positive(t, b.next[3])
	assert.Empty(t, b.live)
}
