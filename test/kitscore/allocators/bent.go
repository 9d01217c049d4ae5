package allocators

import (
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// bent is an allocator with some of its methods changed. Each function that is nil changes nothing.
type bent struct {
	alloc.Allocator
	// requests changes requests before the allocator gets them, results what it answers.
	requests func([]alloc.Request)
	results  func([]alloc.Request, []alloc.Result)
	// free and reserve change extents before the allocator gets them. They report by place which extents it does not get.
	free    func([]alloc.Extent) (drop []bool)
	reserve func([]alloc.Extent) (drop []bool)
	stats   func(alloc.SpaceID, *alloc.Stats)
	remove  func(alloc.SpaceID)
	mu      sync.Mutex // of all functions
}

// Alloc implements alloc.Allocator.
func (b *bent) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := slices.Clone(requests)
	if b.requests != nil {
		b.requests(own)
	}
	results, err := b.Allocator.Alloc(ctx, own)
	if b.results != nil && err == nil {
		b.results(requests, results)
	}
	return results, err
}

// Free implements alloc.Allocator.
func (b *bent) Free(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	return b.each(ctx, extents, b.free, b.Allocator.Free)
}

// Reserve implements alloc.Allocator.
func (b *bent) Reserve(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	return b.each(ctx, extents, b.reserve, b.Allocator.Reserve)
}

func (b *bent) each(ctx context.Context, extents []alloc.Extent, bend func([]alloc.Extent) []bool, do func(context.Context, []alloc.Extent) ([]error, error)) ([]error, error) {
	if bend == nil {
		return do(ctx, extents)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	extents = slices.Clone(extents)
	drop := bend(extents)
	var rest []alloc.Extent
	var place []int
	for i, e := range extents {
		if !drop[i] {
			rest, place = append(rest, e), append(place, i)
		}
	}
	bad, err := do(ctx, rest)
	if bad == nil || err != nil {
		return nil, err
	}
	out := make([]error, len(extents))
	for i, err := range bad {
		out[place[i]] = err
	}
	return out, nil
}

// RemoveSpace implements alloc.Allocator.
func (b *bent) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	if b.remove != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.remove(id)
	}
	return b.Allocator.RemoveSpace(ctx, id)
}

// Stats implements alloc.Allocator.
func (b *bent) Stats(ctx context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	st, err := b.Allocator.Stats(ctx, id)
	if b.stats != nil && err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stats(id, &st)
	}
	return st, err
}

// dropped reports by place which extents are dropped.
func dropped(extents []alloc.Extent, drop func(i int, e alloc.Extent) bool) []bool {
	out := make([]bool, len(extents))
	for i, e := range extents {
		out[i] = drop(i, e)
	}
	return out
}

// shown gives an extent out under another offset, and takes it back under that.
func (b *bent) shown(as func(alloc.Request, alloc.Extent) (alloc.Extent, bool)) {
	real := map[alloc.Extent]alloc.Extent{}
	b.results = func(requests []alloc.Request, results []alloc.Result) {
		for i, r := range results {
			if e, other := as(requests[i], r.Extent); other && r.Err == nil {
				real[e] = r.Extent
				results[i].Extent = e
			}
		}
	}
	b.free = func(extents []alloc.Extent) []bool {
		return dropped(extents, func(i int, e alloc.Extent) bool {
			if was, other := real[e]; other {
				extents[i] = was
				delete(real, e)
			}
			return false
		})
	}
}
