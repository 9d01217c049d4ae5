package pluginhost

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// announcedPolicy is a policy that says before each call that there is one.
type announcedPolicy struct {
	evict.Policy
	first func()
}

func announcePolicy(p evict.Policy, first func()) evict.Policy { return announcedPolicy{p, first} }

// Record implements evict.Policy.
func (p announcedPolicy) Record(ctx context.Context, events []evict.Event) error {
	p.first()
	return p.Policy.Record(ctx, events)
}

// Propose implements evict.Policy.
func (p announcedPolicy) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.first()
	return p.Policy.Propose(ctx, dst, bytes)
}

// Resolve implements evict.Policy.
func (p announcedPolicy) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	p.first()
	return p.Policy.Resolve(ctx, verdicts)
}

// announcedAllocator is an allocator that says before each call that there is one.
type announcedAllocator struct {
	alloc.Allocator
	first func()
}

func announceAllocator(a alloc.Allocator, first func()) alloc.Allocator {
	return announcedAllocator{a, first}
}

// AddSpace implements alloc.Allocator.
func (a announcedAllocator) AddSpace(ctx context.Context, s alloc.Space) error {
	a.first()
	return a.Allocator.AddSpace(ctx, s)
}

// RemoveSpace implements alloc.Allocator.
func (a announcedAllocator) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	a.first()
	return a.Allocator.RemoveSpace(ctx, id)
}

// Alloc implements alloc.Allocator.
func (a announcedAllocator) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	a.first()
	return a.Allocator.Alloc(ctx, requests)
}

// Free implements alloc.Allocator.
func (a announcedAllocator) Free(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	a.first()
	return a.Allocator.Free(ctx, extents)
}

// Reserve implements alloc.Allocator.
func (a announcedAllocator) Reserve(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	a.first()
	return a.Allocator.Reserve(ctx, extents)
}
