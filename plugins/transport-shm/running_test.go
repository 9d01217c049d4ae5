package shm

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// held is an operation that a worker, played by the test, has begun and not ended.
func held(t *testing.T, r *pair, o transport.Op) []chunk {
	require.Equal(t, transport.OK, one(t, r.path, transport.Op{Kind: transport.Read, Local: make([]byte, 1), Remote: r.id}).Status)
	r.client.work.stop()
	n, err := r.path.Submit([]transport.Op{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	var chunks [smallCount]chunk
	batch := chunks[:r.client.work.take(&chunks)]
	require.Len(t, batch, 1)
	r.path.begin(batch)
	return batch
}

// nothingYet requires that a path has no completion.
func nothingYet(t *testing.T, p *path) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	n, err := p.Reap(ctx, make([]transport.Completion, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestRunningCopyHoldsTheRegion: the owner gets its memory back only after the copy that
// touches it ended, however the end of the region came.
func TestRunningCopyHoldsTheRegion(t *testing.T) {
	const size = 64 << 10
	for name, end := range map[string]func(*pair, context.Context) error{
		"the owner deregisters it": func(r *pair, ctx context.Context) error { return r.server.Deregister(ctx, 1) },
		"the path is closed": func(r *pair, ctx context.Context) error {
			_ = r.path.Close(ctx)
			return r.server.Deregister(ctx, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPair(t, size)
			batch := held(t, r, transport.Op{ID: 5, Kind: transport.Write, Local: make([]byte, size), Remote: r.id})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			require.ErrorContains(t, end(r, ctx), "must not be reused yet")
			nothingYet(t, r.path)
			for i := range batch[0].dst {
				batch[0].dst[i] = 7 // The memory is still there.
			}
			require.EqualValues(t, 7, r.mem[size-1])
			r.path.end(batch)
			dst := make([]transport.Completion, 1)
			n, err := r.path.Reap(t.Context(), dst)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, transport.Failed, dst[0].Status)
			require.NoError(t, r.server.Deregister(t.Context(), 1))
		})
	}
}

// TestRunningCopyHoldsTheBuffer: an operation whose deadline passes completes only after the
// copy that touches its buffer ended; what was not begun is not copied.
func TestRunningCopyHoldsTheBuffer(t *testing.T) {
	const size = 4 << 20
	r := newPair(t, size, func(c *Config) { c.Workers = 2 })
	batch := held(t, r, transport.Op{ID: 5, Kind: transport.Read, Local: make([]byte, size), Remote: r.id})
	r.path.mu.Lock()
	var o *op
	for o = range r.path.Active() {
	}
	r.path.expire(slices.Values([]*op{o})) // As if its deadline had come in the middle of the copy.
	require.Error(t, o.err)
	r.path.mu.Unlock()
	nothingYet(t, r.path)
	r.path.end(batch)
	dst := make([]transport.Completion, 1)
	_, err := r.path.Reap(t.Context(), dst)
	require.NoError(t, err)
	require.Equal(t, errs.ClassTransientPath, dst[0].Class())
	require.EqualValues(t, 2, r.client.Stats().Slices, "the rest of it was withdrawn")
}
