package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// allocate maps and registers the memory of the configuration, beginning with what the process before has left.
func (n *Node) allocate(ctx context.Context) error {
	sizes := n.cfg.Segments
	if n.cfg.Kept != nil {
		var err error
		if sizes, err = n.resume(ctx); err != nil {
			return err
		}
	}
	var made []*segment
	for i, size := range sizes {
		most := n.pieceSize(size)
		if n.cfg.Kept != nil {
			most = size // It is a piece already.
		}
		more, err := n.acquire(ctx, fmt.Sprintf("segment %d", i), MountOptions{Size: size}, most, nil)
		if err != nil {
			n.forget(context.WithoutCancel(ctx), made) // The node does not start, and the next one makes its own.
			return err
		}
		made = append(made, more...)
	}
	return nil
}

// resume goes on with what the process before has left, and returns the sizes of the segments that are missing.
func (n *Node) resume(ctx context.Context) (missing []uint64, err error) {
	total, most := uint64(0), uint64(0)
	for _, size := range n.cfg.Segments {
		total, most = total+size, max(most, n.cfg.segmentSize(size))
	}
	left, err := n.cfg.Kept.choose(ctx, total, most, n.cfg.HugePages, n.count)
	if err != nil {
		return nil, err
	}
	rest := total
	for i, l := range left {
		if _, err := n.acquire(ctx, fmt.Sprintf("kept segment %d", i), MountOptions{Size: l.size}, l.size, l); err != nil {
			return nil, err
		}
		rest -= l.size
	}
	for _, size := range n.cfg.Segments {
		size = min(size, rest)
		missing = append(missing, memory.Pieces(size, min(keptPiece(total), n.pieceSize(total)))...)
		rest -= size
	}
	return missing, nil
}

// acquire gets memory, divides it into segments of at most most bytes and registers them. left, if there is any, is a segment of the process
// before that the node goes on with.
func (n *Node) acquire(ctx context.Context, what string, o MountOptions, most uint64, left *leftSegment) (made []*segment, err error) {
	if o.Location == "" {
		o.Location = n.cfg.Location
	}
	if o.Protocol == "" {
		o.Protocol = n.cfg.Protocol
	}
	defer func() {
		if err != nil {
			if left == nil {
				n.forget(context.WithoutCancel(ctx), made)
			}
			err = errs.Wrap(errs.CodeOf(err), "store node: "+what, errors.Join(err, n.free(context.WithoutCancel(ctx), made)))
			made = nil
		}
	}()
	size := len(o.Memory.Bytes)
	if size == 0 {
		size = int(o.Size)
	}
	borrowed := &loan{freed: o.Freed}
	for rest := o.Memory; size > 0; {
		part := min(int(most), size)
		s := &segment{cell: unassigned}
		if one := rest; len(rest.Bytes) > 0 {
			one.Bytes = rest.Bytes[:part:part]
			s.loan = borrowed
			borrowed.users.Add(1)
			made = append(made, s)
			n.assign(s, made, left)
			err = n.register(ctx, s, one, o.Protocol, nil)
			rest.Bytes = rest.Bytes[part:]
			rest.FDOffset += int64(part)
		} else if s.memory, err = n.mapMemory(uint64(part), o.Location, left); err == nil {
			made = append(made, s)
			one = transfer.BlockMemory(s.memory, 0)
			one.Bytes = one.Bytes[:part]
			n.assign(s, made, left)
			err = n.register(ctx, s, one, o.Protocol, left)
		}
		if err != nil {
			return made, err
		}
		size -= part
	}
	n.mu.Lock()
	n.segments = append(n.segments, made...)
	n.mu.Unlock()
	return made, nil
}

// mapMemory maps memory of this node: new memory, or that of the process before.
func (n *Node) mapMemory(size uint64, location string, left *leftSegment) (*memory.Block, error) {
	o := memory.Options{
		Name: "mooncake-segment", Location: location, HugePages: n.cfg.HugePages, Prefault: n.cfg.Prefault, Promise: true,
		Placement: n.cfg.Placement, Root: n.cfg.Root, Log: n.deps.Log,
	}
	switch {
	case left != nil:
		o.File, o.At = left.memory, left.ledger.Place().Base
	case n.cfg.Kept != nil:
		f, err := n.cfg.Kept.make(o.Name, o.HugePages)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // The block has a copy of the descriptor.
		o.File, o.At = f, keptAddress()
	}
	return memory.Allocate(size, o)
}

// register makes memory a segment: it gets a ledger, peers can use it, and the vault keeps it.
func (n *Node) register(ctx context.Context, s *segment, m transfer.Memory, protocol string, left *leftSegment) error {
	m.Access = transport.AccessRemote
	s.Segment, s.mem = n.describe(m.Bytes, protocol), m.Bytes
	var err error
	if left != nil {
		s.ID, s.ledger, s.ledgerMemory, s.kept = left.ledger.Identity().Segment, left.ledger, left.mem, true
	} else if s.ledger, s.ledgerMemory, err = n.newLedger(s); err != nil {
		return errs.Wrap(errs.Internal, "", err)
	}
	s.guard = &guard{segment: s.ID, refused: n.refused}
	s.ledger.SetGuard(&s.guard.Guard)
	s.guard.Enforce(s.ledger.Fenced() != 0) // The master of the process before may have let puts begin.
	s.acked, m.Guard = s.ledger.Seq(), s.guard
	if n.cfg.Grants {
		s.grants = grant.NewBook(n.clocks.now)
		m.Grants = s.grants
	}
	s.ledger.SetPlace(ledger.Place{Client: n.session.ID(), Base: s.Base})
	n.saves.watch(s)
	if s.region, err = n.engine.Register(ctx, m); err != nil {
		return err
	}
	if s.ledgerMemory == nil || left != nil {
		return nil
	}
	n.keep(ctx, s)
	return nil
}

// keep has the vault keep a segment.
func (n *Node) keep(ctx context.Context, s *segment) {
	if err := n.cfg.Kept.keep(ctx, s); err != nil {
		n.deps.Log.Error("a segment is not kept: what it has is lost when this process ends", "segment", s.ID.String(), "error", err)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.kept = true
}

// newLedger makes the empty ledger of a segment, in memory that a vault can keep where the node has one, the memory of the
// segment is its own and its cell is known.
func (n *Node) newLedger(s *segment) (*ledger.Log, *ledgerMemory, error) {
	id := ledger.Identity{Segment: s.ID, Size: s.Size}
	if n.cfg.Kept == nil || s.memory == nil || s.cell == unassigned {
		l, err := ledger.Create(&pages{}, id)
		return l, nil, err
	}
	id.Cluster = cellName(n.cfg.Kept.cluster, s.cell, s.of)
	mem, err := n.cfg.Kept.newLedger()
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Create(mem, id)
	return l, mem, err
}

func (n *Node) describe(mem []byte, protocol string) model.Segment {
	name := n.engine.LocalName()
	return model.Segment{
		ID: model.NewUUID(), Name: name, Base: memory.AddrOf(mem), Size: uint64(len(mem)), Endpoint: name, Protocol: protocol, HostID: session.HostOf(name),
	}
}

// free deregisters segments and frees their memory. Memory that a peer may still use stays mapped,
// and the error says so.
func (n *Node) free(ctx context.Context, segments []*segment) error {
	var failed error
	for _, s := range segments {
		if s.region != 0 {
			// InvalidParams: the engine or its transports ended before and hold nothing.
			if err := n.engine.Deregister(ctx, s.region); err != nil && !errs.Is(err, errs.InvalidParams) {
				failed = errors.Join(failed, errs.Wrap(errs.Internal, "store node: the memory stays mapped, a peer may still use it", err))
				continue
			}
		}
		failed = errors.Join(failed, s.release())
	}
	return failed
}

// keepKept has the vault keep the memory until the context ends. A vault that hangs holds up nothing else.
func (n *Node) keepKept(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.CheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			n.forgetOutgrown(ctx)
			n.cfg.Kept.refresh(ctx, n.keptSegments)
		case <-ctx.Done():
			return
		}
	}
}

// forgetOutgrown has the vault forget the segments whose ledgers found no room in it.
func (n *Node) forgetOutgrown(ctx context.Context) {
	for _, s := range n.keptSegments() {
		if err := s.ledgerMemory.outgrown.Load(); err != nil {
			n.deps.Log.Error("a segment is kept no longer: what it has is lost when this process ends, because its ledger cannot grow", "segment", s.ID.String(), "error", *err)
			n.forget(ctx, []*segment{s})
		}
	}
}

// keptSegments returns the segments that the vault has to keep.
func (n *Node) keptSegments() []*segment {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.segments), func(s *segment) bool { return !s.kept || s.leaving })
}

// staying returns the segments that are not being unmounted.
func (n *Node) staying() []*segment {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.segments), func(s *segment) bool { return s.leaving })
}

// remove removes segments from the node's list.
func (n *Node) remove(gone []*segment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.segments = slices.DeleteFunc(slices.Clone(n.segments), func(s *segment) bool { return slices.Contains(gone, s) })
}

// staying returns the segments of a cell that are not being unmounted.
func (c *cell) staying() []*segment {
	return slices.DeleteFunc(c.Node.staying(), func(s *segment) bool { return s.cell != c.index })
}

// pieceSize returns the size of every segment but the last into which memory of a size is divided.
func (n *Node) pieceSize(size uint64) uint64 {
	n.mu.Lock()
	pieces := uint64(n.pieces)
	n.mu.Unlock()
	most := n.cfg.segmentSize(size)
	if pieces > 1 {
		most = min(most, ((size-1)/pieces+segmentAlign)/segmentAlign*segmentAlign)
	}
	return most
}

// assign gives a new segment, one of made, to a cell: to the one that the process before had it in, or to the one that has the
// least memory of this node, where nodes begin with different ones. It is left unassigned while the number of cells is not known.
func (n *Node) assign(s *segment, made []*segment, left *leftSegment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left != nil {
		s.cell, s.of = left.cell, left.of
		return
	}
	if n.count == 0 {
		return
	}
	have := make([]uint64, n.count)
	for _, o := range slices.Concat(n.segments, made) {
		if o.cell != unassigned && o.cell < n.count && !o.leaving {
			have[o.cell] += o.Size
		}
	}
	from := int(n.session.ID().Lo % uint64(n.count))
	s.cell, s.of = from, n.count
	for i := range n.count {
		if c := (from + i) % n.count; have[c] < have[s.cell] {
			s.cell = c
		}
	}
}

// settleCells gives segments to cells where the number of cells was not known at the start. Nothing is mounted yet. Memory
// without a cell is divided anew. What a ledger has is of no use to a pool that is cut otherwise.
func (n *Node) settleCells(ctx context.Context) error {
	var loose []*segment
	total := uint64(0)
	for _, s := range n.staying() {
		if s.tier != nil {
			n.assign(s, nil, nil)
			continue
		}
		if s.cell != unassigned && s.of != n.count {
			n.wipe(s, fmt.Errorf("it is that of cell %d of %d, and the pool has %d cells now", s.cell, s.of, n.count))
			s.cell = unassigned
		}
		if s.cell == unassigned {
			loose, total = append(loose, s), total+s.Size
		}
	}
	if n.count == 1 {
		for _, s := range loose {
			n.assign(s, nil, nil)
			n.identify(ctx, s)
		}
		return nil
	}
	err := n.free(ctx, loose)
	n.remove(loose)
	if err != nil || total == 0 {
		return err
	}
	for _, size := range memory.Pieces(total, n.pieceSize(total)) {
		if _, err := n.acquire(ctx, "divide memory", MountOptions{Size: size}, size, nil); err != nil {
			return err
		}
	}
	return nil
}

// identify makes a segment of a node whose memory is kept one that the vault keeps, once its cell is known.
func (n *Node) identify(ctx context.Context, s *segment) {
	if n.cfg.Kept == nil || s.memory == nil || s.kept || s.ledgerMemory != nil {
		return
	}
	l, mem, err := n.newLedger(s)
	if err != nil {
		n.deps.Log.Error("a segment is not kept: what it has is lost when this process ends", "segment", s.ID.String(), "error", err)
		return
	}
	l.SetPlace(s.ledger.Place())
	l.SetGuard(&s.guard.Guard)
	n.mu.Lock()
	s.ledger, s.ledgerMemory, s.acked = l, mem, l.Seq()
	n.mu.Unlock()
	n.keep(ctx, s)
}
