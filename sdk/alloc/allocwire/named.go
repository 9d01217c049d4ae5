package allocwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// named is an allocator whose errors name it and the operation once, those of the items of a batch too.
type named struct {
	alloc.Allocator
	id wire.Namer
}

func newNamed(a alloc.Allocator, id plugin.ID) alloc.Allocator {
	return named{a, wire.Namer(id.String())}
}

// items names the errors of a batch, in place: they belong to the caller.
func (n named) items(verb string, items []error) []error {
	for i, err := range items {
		items[i] = n.id.Err(verb, err)
	}
	return items
}

// AddSpace implements alloc.Allocator.
func (n named) AddSpace(ctx context.Context, s alloc.Space) error {
	return n.id.Err("add space", n.Allocator.AddSpace(ctx, s))
}

// RemoveSpace implements alloc.Allocator.
func (n named) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	return n.id.Err("remove space", n.Allocator.RemoveSpace(ctx, id))
}

// Alloc implements alloc.Allocator.
func (n named) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	results, err := n.Allocator.Alloc(ctx, requests)
	for i := range results {
		results[i].Err = n.id.Err("alloc", results[i].Err)
	}
	return results, n.id.Err("alloc", err)
}

// Free implements alloc.Allocator.
func (n named) Free(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	items, err := n.Allocator.Free(ctx, extents)
	return n.items("free", items), n.id.Err("free", err)
}

// Reserve implements alloc.Allocator.
func (n named) Reserve(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	items, err := n.Allocator.Reserve(ctx, extents)
	return n.items("reserve", items), n.id.Err("reserve", err)
}

// Stats implements alloc.Allocator.
func (n named) Stats(ctx context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	st, err := n.Allocator.Stats(ctx, id)
	return st, n.id.Err("stats", err)
}
