package space

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func fixture(t *testing.T) (*Pool, *mastertest.Alloc, *segments.Registry, *segments.Segment) {
	a, r := mastertest.NewAlloc(), segments.NewRegistry()
	p := New(a, slog.New(slog.DiscardHandler))
	s, _, err := r.Prepare(model.UUID{Hi: 1}, model.Segment{ID: model.UUID{Hi: 2}, Name: "n", Base: 1, Size: 1000})
	require.NoError(t, err)
	require.NoError(t, p.Mount(t.Context(), s, func() { r.Add(s) }))
	return p, a, r, s
}

func take(t *testing.T, p *Pool, r *segments.Registry, sizes ...uint64) []segments.Extent {
	var requests []alloc.Request
	for _, n := range sizes {
		requests = append(requests, alloc.Request{Size: n, Candidates: r.View().Ring})
	}
	got, err := p.Alloc(t.Context(), r.View(), requests)
	require.NoError(t, err)
	var out []segments.Extent
	for _, g := range got {
		require.NoError(t, g.Err)
		out = append(out, segments.Extent{Seg: r.View().Space(g.Extent.Space), Offset: g.Extent.Offset, Size: g.Extent.Size})
	}
	return out
}

func TestAccounting(t *testing.T) {
	p, a, r, s := fixture(t)
	x := take(t, p, r, 100, 200)
	require.Equal(t, uint64(300), s.Used())
	p.Free(t.Context(), x[:1])
	require.Equal(t, uint64(200), s.Used())
	require.Len(t, a.Live(), 1)
	r.Remove(s)
	p.Free(t.Context(), x[1:])
	require.Zero(t, s.Used())
	require.Len(t, a.Live(), 1, "a dead segment's extents go with its space")
	p.RemoveSpace(t.Context(), s.Space)
	require.Empty(t, a.Live())
}

func TestQuarantineReleasesInTime(t *testing.T) {
	p, a, r, _ := fixture(t)
	x := take(t, p, r, 1, 2, 4, 8)
	p.HoldPut(x[0], 30)
	p.HoldRead(x[1], 10)
	p.HoldPut(x[2], 20)
	require.Equal(t, uint64(7), p.HeldBytes())
	require.Equal(t, uint64(5), p.StagingBytes())
	for _, c := range []struct {
		now            lease.Instant
		released, live int
		held           uint64
	}{{9, 0, 4, 7}, {10, 0, 3, 5}, {29, 1, 2, 1}, {100, 1, 1, 0}} {
		require.Equal(t, c.released, p.Tick(t.Context(), c.now))
		require.Len(t, a.Live(), c.live)
		require.Equal(t, c.held, p.HeldBytes())
	}
	require.Zero(t, p.StagingBytes())
}

func TestFreesWaitForAnAllocatorThatIsDown(t *testing.T) {
	p, a, r, s := fixture(t)
	x := take(t, p, r, 1, 2)
	a.Down.Store(true)
	p.Free(t.Context(), x)
	require.Zero(t, s.Used(), "free as far as placement is concerned")
	p.Tick(t.Context(), 1)
	a.Down.Store(false)
	require.Len(t, a.Live(), 2)
	p.Tick(t.Context(), 1)
	require.Empty(t, a.Live())
	calls := a.FreeCalls.Load()
	p.Tick(t.Context(), 1)
	require.Equal(t, calls, a.FreeCalls.Load(), "freed once")
}

// forgetful frees, but its answers never arrive.
type forgetful struct{ alloc.Allocator }

func (f forgetful) Free(ctx context.Context, x []alloc.Extent) ([]error, error) {
	_, _ = f.Allocator.Free(ctx, x)
	return nil, errs.New(errs.RPCTimeout, "test", "no answer")
}

// An extent whose free was not answered may belong to another object already.
func TestUnansweredFreesAreNotTriedAgain(t *testing.T) {
	p, a, r, _ := fixture(t)
	x := take(t, p, r, 100)
	p.alloc = forgetful{a}
	p.Free(t.Context(), x)
	p.alloc = a
	again := take(t, p, r, 100)
	require.Equal(t, x, again)
	p.Tick(t.Context(), 1)
	require.Equal(t, []alloc.Extent{again[0].Alloc()}, a.Live(), "the new owner keeps it")
	require.Equal(t, uint64(1), p.lost)
}

func TestWhatWaitsIsBounded(t *testing.T) {
	p, _, _, s := fixture(t)
	batch := make([]alloc.Extent, maxOwed/2+1)
	for i := range batch {
		batch[i].Space = s.Space
	}
	for range 3 {
		p.owe(batch, mastertest.ErrDown)
	}
	require.Len(t, p.owed, maxOwed)
	require.Equal(t, uint64(maxOwed/2+3), p.lost)
}

func TestReplay(t *testing.T) {
	p, a, r, s := fixture(t)
	x := take(t, p, r, 1, 2, 4, 8)
	p.HoldPut(x[1], 10)
	a.Down.Store(true)
	p.Free(t.Context(), x[2:3]) // waits, and is free for the new instance
	fresh := mastertest.NewAlloc()
	live := func(yield func([]segments.Extent) error) error { return yield([]segments.Extent{x[0], x[3]}) }
	require.NoError(t, p.Replay(t.Context(), fresh, r.View, live))
	require.ElementsMatch(t, []alloc.Extent{x[0].Alloc(), x[1].Alloc(), x[3].Alloc()}, fresh.Live())
	require.Empty(t, p.owed)
	require.Equal(t, uint64(1+2+8), s.Used())
	twice := func(yield func([]segments.Extent) error) error { return yield([]segments.Extent{x[0], x[0]}) }
	require.ErrorContains(t, p.Replay(t.Context(), mastertest.NewAlloc(), r.View, twice), "give them out twice")
}

func TestReplayWaitsForWhoIsInside(t *testing.T) {
	p, _, r, _ := fixture(t)
	p.Enter()
	done := make(chan error)
	go func() {
		done <- p.Replay(t.Context(), mastertest.NewAlloc(), r.View, func(func([]segments.Extent) error) error { return nil })
	}()
	for p.gate.TryRLock() { // until Replay asks for the gate
		p.gate.RUnlock()
		time.Sleep(time.Microsecond)
	}
	select {
	case <-done:
		t.Fatal("Replay did not wait")
	default:
	}
	p.Leave()
	require.NoError(t, <-done)
}
