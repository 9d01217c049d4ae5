package pluginhost

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// policyProxy is an eviction policy in a supervised process.
type policyProxy struct{ *supervisor[evict.Policy] }

var _ evict.Policy = policyProxy{}

// Record implements evict.Policy.
func (p policyProxy) Record(ctx context.Context, events []evict.Event) error {
	return p.call(ctx, "record", func(o evict.Policy) error { return o.Record(ctx, events) })
}

// Propose implements evict.Policy.
func (p policyProxy) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) (out []evict.Candidate, err error) {
	out = dst
	err = p.call(ctx, "propose", func(o evict.Policy) (err error) {
		out, err = o.Propose(ctx, dst, bytes)
		return err
	})
	return out, err
}

// Resolve implements evict.Policy.
func (p policyProxy) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	return p.call(ctx, "resolve", func(o evict.Policy) error { return o.Resolve(ctx, verdicts) })
}

// Stats implements evict.Policy.
func (p policyProxy) Stats(ctx context.Context) (st evict.Stats, err error) {
	err = p.call(ctx, "stats", func(o evict.Policy) (err error) {
		st, err = o.Stats(ctx)
		return err
	})
	return st, err
}

// allocatorProxy is an allocator in a supervised process.
type allocatorProxy struct{ *supervisor[alloc.Allocator] }

var _ alloc.Allocator = allocatorProxy{}

// AddSpace implements alloc.Allocator.
func (p allocatorProxy) AddSpace(ctx context.Context, s alloc.Space) error {
	return p.call(ctx, "add space", func(o alloc.Allocator) error { return o.AddSpace(ctx, s) })
}

// RemoveSpace implements alloc.Allocator.
func (p allocatorProxy) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	return p.call(ctx, "remove space", func(o alloc.Allocator) error { return o.RemoveSpace(ctx, id) })
}

// Alloc implements alloc.Allocator.
func (p allocatorProxy) Alloc(ctx context.Context, requests []alloc.Request) (results []alloc.Result, err error) {
	err = p.call(ctx, "alloc", func(o alloc.Allocator) (err error) {
		results, err = o.Alloc(ctx, requests)
		return err
	})
	return results, err
}

// Free implements alloc.Allocator.
func (p allocatorProxy) Free(ctx context.Context, extents []alloc.Extent) (items []error, err error) {
	err = p.call(ctx, "free", func(o alloc.Allocator) (err error) {
		items, err = o.Free(ctx, extents)
		return err
	})
	return items, err
}

// Reserve implements alloc.Allocator.
func (p allocatorProxy) Reserve(ctx context.Context, extents []alloc.Extent) (items []error, err error) {
	err = p.call(ctx, "reserve", func(o alloc.Allocator) (err error) {
		items, err = o.Reserve(ctx, extents)
		return err
	})
	return items, err
}

// Stats implements alloc.Allocator.
func (p allocatorProxy) Stats(ctx context.Context, id alloc.SpaceID) (st alloc.Stats, err error) {
	err = p.call(ctx, "stats", func(o alloc.Allocator) (err error) {
		st, err = o.Stats(ctx, id)
		return err
	})
	return st, err
}
