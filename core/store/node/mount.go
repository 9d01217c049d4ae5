package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errOutside is the error of a call that needs a node in the pool.
var errOutside = errs.New(errs.UnavailableInCurrentStatus, "", "the node is not in the pool: it is not started, it is stopped, or the master has not answered yet")

// MountOptions describe memory to contribute at run time.
type MountOptions struct {
	// Size of memory to allocate, in bytes; not used with Memory.
	Size uint64
	// Memory that exists already. It must stay in place until Freed is called.
	Memory transfer.Memory
	// Freed is called when the node no longer needs the memory, also when the mount fails. It may be
	// nil.
	Freed func()
	// Protocol and Location are those of Config if empty.
	Protocol, Location string
}

// MountSegment contributes more memory and returns the IDs of its segments: one, or several if it is
// larger than MaxSegment. On an error it leaves nothing behind. InvalidParams for size 0 and for more
// than the machine has.
func (n *Node) MountSegment(ctx context.Context, o MountOptions) ([]model.SegmentID, error) {
	size := o.Size
	if len(o.Memory.Bytes) > 0 {
		size = uint64(len(o.Memory.Bytes))
	}
	if err := n.admit(size, len(o.Memory.Bytes) == 0); err != nil {
		if o.Freed != nil {
			o.Freed()
		}
		return nil, errs.Wrap(errs.CodeOf(err), "store node: mount", err)
	}
	made, err := n.acquire(ctx, "mount", o, n.pieceSize(size), nil)
	if err != nil {
		return nil, err
	}
	if err = n.announce(ctx, func(ctx context.Context) error { return n.mountAt(ctx, made) }); err != nil {
		undo := context.WithoutCancel(ctx)
		return nil, errors.Join(err, n.unmount(undo, made, 0), n.retire(undo, made))
	}
	ids := make([]model.SegmentID, len(made))
	for i, s := range made {
		ids[i] = s.ID
	}
	return ids, nil
}

// mountAt mounts segments at the cells that they belong to.
func (n *Node) mountAt(ctx context.Context, made []*segment) error {
	for _, c := range n.joinedCells() {
		if part := slices.DeleteFunc(slices.Clone(made), func(s *segment) bool { return s.cell != c.index }); len(part) > 0 {
			if err := c.mount(ctx, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit returns an error for memory that the node cannot contribute now.
func (n *Node) admit(size uint64, fresh bool) error {
	n.mu.Lock()
	open, segments := n.open, len(n.segments)
	n.mu.Unlock()
	switch {
	case !open:
		return errOutside
	case size == 0:
		return errs.New(errs.InvalidParams, "", "the size is 0")
	case segments+n.cfg.segmentsOf(size) > maxSegments:
		return errs.New(errs.InvalidParams, "", "%d segments are mounted, with these it would be more than %d", segments, maxSegments)
	case fresh:
		if n.Size()+size < size {
			return errs.New(errs.InvalidParams, "", "the size is beyond the address space")
		}
		return memory.ReadLimits(n.cfg.Root).Check(n.Size() + size)
	}
	return nil
}

// mountAll mounts everything. It makes a node without memory known, so that the master answers its pings like those
// of others.
func (c *cell) mountAll(ctx context.Context) error {
	if segments := c.staying(); len(segments) > 0 {
		return c.mount(ctx, segments)
	}
	defer c.session.Record("ReMountSegment", time.Now())
	return c.master.RemountSegments(ctx, c.session.ID(), nil)
}

// mountEach mounts segments at a master that keeps no ledgers. A master that has forgotten the node gets all of its
// segments at once: mounting one makes the node known, so that its pings would not find out that the others are missing.
func (c *cell) mountEach(ctx context.Context, segments []*segment) error {
	if c.joined.Load() {
		forgotten := len(segments) == len(c.staying())
		if !forgotten {
			t0 := time.Now()
			reply, err := c.master.Ping(ctx, c.session.ID(), model.PingReport{})
			c.session.Record("Ping", t0)
			if err != nil {
				return err
			}
			forgotten = reply.Status == model.ClientNeedRemount
		}
		if forgotten {
			defer c.session.Record("ReMountSegment", time.Now())
			return c.master.RemountSegments(ctx, c.session.ID(), described(c.staying()))
		}
	}
	for _, s := range segments {
		t0 := time.Now()
		err := c.master.MountSegment(ctx, c.session.ID(), s.Segment)
		c.session.Record("MountSegment", t0)
		if err != nil {
			return err
		}
	}
	return nil
}

// Replace contributes memory in place of the present memory: it mounts the new memory first and then
// unmounts the old with a grace. If the new memory cannot be mounted, the old stays.
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

// Segments lists the segments of memory, without those that are being unmounted.
func (n *Node) Segments() []model.Segment {
	return described(slices.DeleteFunc(n.staying(), func(s *segment) bool { return s.tier != nil }))
}

func described(segments []*segment) []model.Segment {
	var out []model.Segment
	for _, s := range segments {
		out = append(out, s.Segment)
	}
	return out
}
