package space

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

func mounted(t *testing.T, p *Pool, r *segments.Registry, client, base, size uint64) *segments.Segment {
	t.Helper()
	s, _, err := r.Prepare(model.UUID{Hi: client}, model.Segment{ID: model.UUID{Lo: base}, Name: "again", Base: base, Size: size})
	require.NoError(t, err)
	require.NoError(t, p.Mount(t.Context(), s, func() { r.Add(s) }))
	return s
}

// A client may cut its memory differently when it mounts it again: each byte that is held
// goes with the segment that it is in, and stays held until its time.
func TestHeldMemoryGoesWithTheSegmentItIsIn(t *testing.T) {
	p, a, r, old := fixture(t) // client 1, addresses 1 to 1001
	x := take(t, p, r, 100, 200, 300)
	p.HoldPut(x[0], 30)
	p.HoldRead(x[1], 20)
	r.Remove(old)
	p.RemoveSpace(t.Context(), old.Space)
	p.Free(t.Context(), x[2:])

	other := mounted(t, p, r, 2, 1, 1000)
	middle := mounted(t, p, r, 1, 51, 150)
	require.ElementsMatch(t, []alloc.Extent{
		{Space: middle.Space, Size: 50}, {Space: middle.Space, Offset: 50, Size: 100},
	}, a.Live(), "and nothing of another client's")
	require.Equal(t, []uint64{150, 150, 0}, []uint64{old.Used(), middle.Used(), other.Used()})

	rest := mounted(t, p, r, 1, 201, 800)
	require.Contains(t, a.Live(), alloc.Extent{Space: rest.Space, Size: 100})
	require.Equal(t, []uint64{50, 150, 100}, []uint64{old.Used(), middle.Used(), rest.Used()})
	require.Equal(t, []uint64{300, 100}, []uint64{p.HeldBytes(), p.StagingBytes()})

	p.Tick(t.Context(), 20)
	require.ElementsMatch(t, []alloc.Extent{{Space: middle.Space, Size: 50}}, a.Live())
	require.Equal(t, []uint64{100, 100}, []uint64{p.HeldBytes(), p.StagingBytes()})
	p.Tick(t.Context(), 30)
	require.Empty(t, a.Live())
	require.Zero(t, p.HeldBytes()+p.StagingBytes()+old.Used()+middle.Used()+rest.Used())
}
