package space

import (
	"context"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// replayBatch is how many extents go to the allocator in one call.
const replayBatch = 4096

// Replay tells a freshly started allocator every mounted space and every live extent. view gives
// the mounted segments and live calls yield with batches of extents; both run while nothing
// changes. Calls through the pool's own allocator must fail, not wait, until Replay returns:
// Replay waits for those in progress.
//
// An error means that the allocator must not be used.
func (p *Pool) Replay(ctx context.Context, a alloc.Allocator, view func() *segments.View, live func(yield func([]segments.Extent) error) error) error {
	p.gate.Lock()
	defer p.gate.Unlock()
	all := slices.Concat(view().All, view().Away)
	for _, s := range all {
		if err := a.AddSpace(ctx, alloc.Space{ID: s.Space, Size: s.Size}); err != nil {
			return fmt.Errorf("replay allocator: add space %d of segment %s: %w", s.Space, s.Name, err)
		}
	}
	r := reserver{ctx: ctx, alloc: a}
	if err := live(r.add); err != nil {
		return err
	}
	if err := r.add(p.quarantined()); err != nil {
		return err
	}
	for _, s := range all {
		for _, e := range s.Ledger.Unfreed(nil) {
			if err := r.add([]segments.Extent{{Seg: s, Offset: e.Offset, Size: e.Size}}); err != nil {
				return err
			}
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	// What was waiting to be freed is not reserved, and so is free.
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owed, p.owedSpaces, p.lost = nil, nil, 0
	return nil
}

func (p *Pool) quarantined() []segments.Extent {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]segments.Extent, 0, len(p.held))
	for _, h := range p.held {
		out = append(out, h.Extent)
	}
	return out
}

type reserver struct {
	ctx   context.Context
	alloc alloc.Allocator
	batch []alloc.Extent
}

func (r *reserver) add(extents []segments.Extent) error {
	for _, e := range extents {
		if !e.Seg.Alive() {
			continue
		}
		r.batch = append(r.batch, e.Alloc())
		if len(r.batch) == replayBatch {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reserver) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	each, err := r.alloc.Reserve(r.ctx, r.batch)
	if err != nil {
		return fmt.Errorf("replay allocator: reserve %d extents: %w", len(r.batch), err)
	}
	for i, e := range each {
		if e != nil {
			x := r.batch[i]
			return fmt.Errorf("replay allocator: it cannot take back %d bytes at %d of space %d, so it would give them out twice: %w", x.Size, x.Offset, x.Space, e)
		}
	}
	r.batch = r.batch[:0]
	return nil
}
