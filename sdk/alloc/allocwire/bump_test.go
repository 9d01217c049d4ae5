package allocwire

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// bump is a small but real allocator: spaces are filled from the front.
type bump struct {
	mu   sync.Mutex
	next map[alloc.SpaceID]uint64
	live map[alloc.Extent]bool
	gate chan struct{}
	// lie, when set, changes every extent that is given out.
	lie func(*alloc.Extent)
}

func newBump() *bump {
	return &bump{next: map[alloc.SpaceID]uint64{}, live: map[alloc.Extent]bool{}}
}

func (b *bump) Start(context.Context, plugin.Host) error { return nil }
func (b *bump) Stop(context.Context) error               { return nil }

func (b *bump) AddSpace(_ context.Context, s alloc.Space) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[s.ID]; ok || s.Size == 0 {
		return errs.New(errs.InvalidParams, "bump: add space", "space %d is empty or known", s.ID)
	}
	b.next[s.ID] = 0
	return nil
}

func (b *bump) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[id]; !ok {
		return errs.New(errs.SegmentNotFound, "bump: remove space", "no space %d", id)
	}
	delete(b.next, id)
	return nil
}

func (b *bump) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	if b.gate != nil {
		<-b.gate
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		if len(r.Candidates) == 0 {
			out[i].Err = errs.New(errs.NoAvailableHandle, "bump: alloc", "nothing fits")
			continue
		}
		at := b.next[r.Candidates[0]]
		if r.Align > 1 {
			at = (at + r.Align - 1) / r.Align * r.Align
		}
		e := alloc.Extent{Space: r.Candidates[0], Offset: at, Size: r.Size}
		b.next[e.Space] = at + r.Size
		b.live[e] = true
		if b.lie != nil {
			b.lie(&e)
		}
		out[i].Extent = e
	}
	return out, nil
}

func (b *bump) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := make([]error, len(extents))
	for i, e := range extents {
		if !b.live[e] {
			items[i] = errs.New(errs.InvalidWrite, "bump: free", "extent at %d is not allocated", e.Offset)
		}
		delete(b.live, e)
	}
	return items, nil
}

func (b *bump) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range extents {
		b.live[e] = true
	}
	return nil, nil
}

func (b *bump) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[id]; !ok {
		return alloc.Stats{}, errs.New(errs.SegmentNotFound, "bump: stats", "no space %d", id)
	}
	return alloc.Stats{Extents: uint64(len(b.live)), LargestFree: 5}, nil
}

func dialBump(t *testing.T, b *bump, o wire.ClientOptions) *Client {
	t.Helper()
	f := alloc.Define(plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: "alloc", Name: "bump"}, Version: "0.1.0", API: []uint{1},
		Summary: "for tests", Stability: plugin.Experimental,
	}, func() *plugin.NoConfig { return &plugin.NoConfig{} }, func(*plugin.NoConfig) (alloc.Allocator, error) { return b, nil })
	c, err := wiretest.Connect(t, Kind().Descriptor(), f, wire.ServerOptions{}, nil)
	require.NoError(t, err)
	o.ID = f.Manifest().ID
	client := NewClient(c.Conn, o)
	require.NoError(t, client.Configure(t.Context(), 1, nil))
	return client
}
