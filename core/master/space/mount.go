package space

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Mount makes a segment known to the allocator and then calls publish, while no goroutine is
// inside the gate. Memory that belonged to the same client before and is still held stays held
// under the new segment, so that it is not given out before its time. The table must hold no copy
// on that memory any more.
//
// After an error the allocator does not know the segment. The error is NoAvailableHandle if the
// allocator cannot keep held memory because the segment's boundaries have changed.
func (p *Pool) Mount(ctx context.Context, s *segments.Segment, publish func()) error {
	p.gate.Lock()
	defer p.gate.Unlock()
	err := p.addSpace(ctx, s)
	if err == nil {
		err = p.adopt(ctx, s)
	}
	if err != nil {
		p.RemoveSpace(ctx, s.Space) // The allocator may know the space despite the error.
		return err
	}
	publish()
	return nil
}

func (p *Pool) addSpace(ctx context.Context, s *segments.Segment) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	err := p.alloc.AddSpace(ctx, alloc.Space{ID: s.Space, Size: s.Size})
	return errs.WithHint(err, "the allocator refused the segment; see the master's log, then try again")
}

// adopt moves held extents in a segment's memory to the segment.
func (p *Pool) adopt(ctx context.Context, s *segments.Segment) error {
	p.mu.Lock()
	kept, moved := p.held.split(s)
	p.mu.Unlock()
	if len(moved) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	for from := 0; from < len(moved); from += replayBatch {
		if err := p.reserve(ctx, moved[from:min(from+replayBatch, len(moved))]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range moved {
		moved[i].from.Give(moved[i].Size)
		s.Take(moved[i].Size)
		kept = append(kept, moved[i].held)
	}
	p.held = kept
	heap.Init(&p.held)
	return nil
}

func (p *Pool) reserve(ctx context.Context, moved []move) error {
	batch := make([]alloc.Extent, len(moved))
	for i := range moved {
		batch[i] = moved[i].Alloc()
	}
	each, err := p.alloc.Reserve(ctx, batch)
	if err != nil {
		return fmt.Errorf("reserve %d extents that are held yet: %w", len(batch), err)
	}
	for i, e := range each {
		if e != nil {
			x := batch[i]
			return errs.WithHint(errs.Wrap(errs.NoAvailableHandle, "reserve held memory",
				fmt.Errorf("%d bytes at %d may still be written or read by clients of an earlier mount, and cannot be set aside: %w", x.Size, x.Offset, e)),
				"mount the memory as it was mounted before, or when the put release timeout has passed")
		}
	}
	return nil
}

// move is a held extent and the segment that takes it over from another one.
type move struct {
	held
	from *segments.Segment
}

// split divides the held extents into those that a new segment takes over, because they are in its
// memory, and those that stay. Memory of another client is never the same, whatever its address: a
// restarted process has a new ID. What lies in a segment with a ledger, the ledger says.
func (q quarantine) split(s *segments.Segment) (kept quarantine, moved []move) {
	for _, h := range q {
		old := h.Seg
		from := max(old.Base+h.Offset, s.Base)
		to := min(old.Base+h.Offset+h.Size, s.Base+s.Size)
		if old.Client != s.Client || old.Alive() || old.Ledger != nil || from >= to {
			kept = append(kept, h)
			continue
		}
		part := func(from, to uint64) held {
			c := h
			c.Offset, c.Size = from-old.Base, to-from
			return c
		}
		if start := old.Base + h.Offset; start < from {
			kept = append(kept, part(start, from))
		}
		if end := old.Base + h.Offset + h.Size; to < end {
			kept = append(kept, part(to, end))
		}
		m := move{held: part(from, to), from: old}
		m.Seg, m.Offset = s, from-s.Base
		moved = append(moved, m)
	}
	return kept, moved
}
