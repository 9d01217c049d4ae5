package micro

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	benchSpace     alloc.SpaceID = 1
	benchSpaceSize               = 64 << 30
	fragments                    = 8192 // extents alive while measuring
)

// Alloc measures an allocator on one space of 64 GiB with 8,192 live extents of mixed
// sizes and holes between them, in calls of 256, per extent. cfg is the allocator's
// configuration, nil for its default.
func Alloc(f alloc.Factory, cfg plugin.Config) Suite {
	return Suite{Name: f.Manifest().String(), run: func(ctx context.Context, m *meter) error {
		if cfg == nil {
			cfg = f.DefaultConfig()
		}
		a, err := f.New(cfg)
		if err != nil {
			return err
		}
		return m.started(ctx, a, func() error { return m.alloc(ctx, a) })
	}}
}

func (m *meter) alloc(ctx context.Context, a alloc.Allocator) error {
	if err := a.AddSpace(ctx, alloc.Space{ID: benchSpace, Size: benchSpaceSize}); err != nil {
		return err
	}
	if err := fragment(ctx, a); err != nil {
		return err
	}
	for _, size := range []uint64{64 << 10, 1 << 20} {
		requests := make([]alloc.Request, batch)
		for i := range requests {
			requests[i] = alloc.Request{Size: size, Align: 4096, Candidates: []alloc.SpaceID{benchSpace}}
		}
		name := "allocate and free " + sizeName(int(size))
		if _, err := m.measure(ctx, name, 0, nil, inBatches(func() error {
			got, err := take(ctx, a, requests)
			if err != nil {
				return err
			}
			return give(ctx, a, got)
		})); err != nil {
			return err
		}
	}
	return a.RemoveSpace(ctx, benchSpace)
}

// fragment leaves every other one of many extents of mixed sizes.
func fragment(ctx context.Context, a alloc.Allocator) error {
	sizes := []uint64{4 << 10, 64 << 10, 100_000, 1 << 20, 3 << 20}
	var holes []alloc.Extent
	for at := 0; at < 2*fragments; at += batch {
		requests := make([]alloc.Request, batch)
		for i := range requests {
			requests[i] = alloc.Request{Size: sizes[(at+i)%len(sizes)], Candidates: []alloc.SpaceID{benchSpace}}
		}
		got, err := take(ctx, a, requests)
		if err != nil {
			return err
		}
		for i := 0; i < len(got); i += 2 {
			holes = append(holes, got[i])
		}
	}
	return give(ctx, a, holes)
}

func take(ctx context.Context, a alloc.Allocator, requests []alloc.Request) ([]alloc.Extent, error) {
	results, err := a.Alloc(ctx, requests)
	if err != nil {
		return nil, err
	}
	if len(results) != len(requests) {
		return nil, fmt.Errorf("the allocator answered %d of %d requests", len(results), len(requests))
	}
	out := make([]alloc.Extent, len(results))
	for i, r := range results {
		if r.Err != nil {
			return nil, fmt.Errorf("allocate %d bytes: %w", requests[i].Size, r.Err)
		}
		out[i] = r.Extent
	}
	return out, nil
}

func give(ctx context.Context, a alloc.Allocator, extents []alloc.Extent) error {
	each, err := a.Free(ctx, extents)
	return errors.Join(err, errors.Join(each...))
}
