package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// lingering is how much longer than the grace of an unmount its memory stays registered,
	// for readers that began just before the end.
	lingering = 10 * time.Second
	// freeTimeout bounds the wait for the last reader then.
	freeTimeout = 30 * time.Second
)

// errOutside refuses what only a node that is in the pool can do.
var errOutside = errs.New(errs.UnavailableInCurrentStatus, "", "the node is not in the pool: it is not started, it is stopped, or the master has not answered yet")

// MountOptions describe memory to be contributed at run time.
type MountOptions struct {
	// Size of memory to be allocated, in bytes; not used with Memory.
	Size uint64
	// Memory that is there already. It must stay in place until Freed was called.
	Memory transfer.Memory
	// Freed is called once the memory is of no more use, also when the mount fails. May be
	// nil.
	Freed func()
	// Protocol and Location are those of NodeConfig where empty.
	Protocol, Location string
}

// MountSegment contributes more memory and returns the IDs of its pieces: one, or several
// where it is larger than MaxPiece. On an error nothing is left behind. InvalidParams for
// size 0 and for more than the machine has.
func (n *Node) MountSegment(ctx context.Context, o MountOptions) ([]model.SegmentID, error) {
	const op = "store node: mount"
	size := o.Size
	if len(o.Memory.Bytes) > 0 {
		size = uint64(len(o.Memory.Bytes))
	}
	err := n.admit(size, len(o.Memory.Bytes) == 0)
	if err != nil {
		if o.Freed != nil {
			o.Freed()
		}
		return nil, errs.Wrap(errs.CodeOf(err), op, err)
	}
	made, err := n.acquire(ctx, "mount", o)
	if err != nil {
		return nil, err
	}
	if err = n.announce(ctx, func(ctx context.Context) error { return n.mountEach(ctx, made) }); err != nil {
		undo := context.WithoutCancel(ctx)
		return nil, errors.Join(err, n.unmount(undo, made, 0), n.retire(undo, made))
	}
	ids := make([]model.SegmentID, len(made))
	for i, p := range made {
		ids[i] = p.segment.ID
	}
	return ids, nil
}

// admit refuses memory that cannot be contributed now.
func (n *Node) admit(size uint64, fresh bool) error {
	n.mu.Lock()
	open, pieces := n.open, len(n.pieces)
	n.mu.Unlock()
	switch {
	case !open:
		return errOutside
	case size == 0:
		return errs.New(errs.InvalidParams, "", "the size is 0")
	case pieces+n.cfg.pieces(size) > maxPieces:
		return errs.New(errs.InvalidParams, "", "%d pieces are mounted, with these it would be more than %d", pieces, maxPieces)
	case fresh:
		if n.Size()+size < size {
			return errs.New(errs.InvalidParams, "", "the size is beyond the address space")
		}
		return memory.ReadLimits(n.cfg.Root).Check(n.Size() + size)
	}
	return nil
}

// UnmountSegments takes segments out. With a grace no more objects are placed there and the
// memory stays readable for as long, and is freed in the background after it; the call returns
// when the master knows. Without, it returns when the memory is freed. SegmentNotFound, before
// anything is done, for an ID that is not of this node or is being unmounted already.
func (n *Node) UnmountSegments(ctx context.Context, ids []model.SegmentID, grace time.Duration) error {
	const op = "store node: unmount"
	if grace < 0 {
		return errs.New(errs.InvalidParams, op, "the grace is %v, must be 0 or more", grace)
	}
	going, err := n.choose(ids)
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	if err := n.unmount(ctx, going, grace); err != nil {
		n.mu.Lock()
		for _, p := range going {
			p.leaving = !p.mounted // Those that the master did not hear of stay.
		}
		n.mu.Unlock()
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	if grace == 0 {
		return n.retire(ctx, going)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open { // Stop frees what is left otherwise.
		run := n.run
		n.loop.Go(func() { n.linger(run, going, grace) })
	}
	return nil
}

// choose finds pieces and marks them as leaving, all or none.
func (n *Node) choose(ids []model.SegmentID) ([]*piece, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.open {
		return nil, errOutside
	}
	byID := make(map[model.SegmentID]*piece, len(n.pieces))
	for _, p := range n.pieces {
		if !p.leaving {
			byID[p.segment.ID] = p
		}
	}
	var out []*piece
	for _, id := range ids {
		p := byID[id]
		if p == nil {
			return nil, errs.New(errs.SegmentNotFound, "", "this node has no segment %v, or is unmounting it", id)
		}
		delete(byID, id)
		out = append(out, p)
	}
	for _, p := range out {
		p.leaving = true
	}
	return out, nil
}

// Replace contributes memory in place of what the node has: first the new is mounted, then
// the old unmounted with a grace. When the new cannot be mounted the old stays.
func (n *Node) Replace(ctx context.Context, o MountOptions, grace time.Duration) ([]model.SegmentID, error) {
	var old []model.SegmentID
	for _, s := range n.Segments() {
		old = append(old, s.ID)
	}
	ids, err := n.MountSegment(ctx, o)
	if err != nil {
		return nil, err
	}
	return ids, n.UnmountSegments(ctx, old, grace)
}

// Segments lists what the node contributes; what is being unmounted is left out.
func (n *Node) Segments() []model.Segment {
	var out []model.Segment
	for _, p := range n.staying() {
		out = append(out, p.segment)
	}
	return out
}
