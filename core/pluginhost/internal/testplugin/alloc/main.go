// Command alloc is a plugin for the tests of package pluginhost: a small allocator that crashes
// on command.
package main

import (
	"context"
	_ "embed"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/serve"
)

//go:generate go run . --manifest manifest.json
//go:embed manifest.json
var manifest string

func main() {
	serve.Main(alloc.Define(plugin.MustParseManifest(manifest), func() *plugin.NoConfig { return &plugin.NoConfig{} },
		func(*plugin.NoConfig) (alloc.Allocator, error) {
			return &front{next: map[alloc.SpaceID]uint64{}, live: map[alloc.Extent]bool{}}, nil
		}))
}

// crash is the size that makes the allocator crash. The tests use the same number.
const crash = 0xdead

type front struct {
	mu   sync.Mutex
	next map[alloc.SpaceID]uint64
	live map[alloc.Extent]bool
}

func (f *front) Start(context.Context, plugin.Host) error { return nil }
func (f *front) Stop(context.Context) error               { return nil }

func (f *front) AddSpace(_ context.Context, s alloc.Space) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[s.ID] = 0
	return nil
}

func (f *front) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.next, id)
	return nil
}

func (f *front) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		if r.Size == crash {
			panic("told to crash")
		}
		e := alloc.Extent{Space: r.Candidates[0], Offset: f.next[r.Candidates[0]], Size: r.Size}
		f.next[e.Space] += r.Size
		f.live[e] = true
		out[i].Extent = e
	}
	return out, nil
}

func (f *front) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items := make([]error, len(extents))
	for i, e := range extents {
		if !f.live[e] {
			items[i] = errs.New(errs.InvalidWrite, "faulty: free", "extent at %d is not allocated", e.Offset)
		}
		delete(f.live, e)
	}
	return items, nil
}

func (f *front) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range extents {
		f.live[e] = true
		f.next[e.Space] = max(f.next[e.Space], e.Offset+e.Size)
	}
	return nil, nil
}

func (f *front) Stats(_ context.Context, _ alloc.SpaceID) (alloc.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return alloc.Stats{Extents: uint64(len(f.live))}, nil
}
