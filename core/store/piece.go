package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// piece is one segment: a range of memory that is registered and mounted by itself.
type piece struct {
	segment model.Segment
	mem     []byte
	lot     *lot
	region  transport.RegionID // 0 before it is registered
	mounted bool               // the master was told of it, and not told otherwise
	leaving bool               // it is being unmounted
}

// lot is memory that was allocated, or handed over, as one.
type lot struct {
	block *memory.Block // nil for memory that the caller owns
	users atomic.Int32  // pieces that are not freed yet
	freed func()        // called when it is no longer used, may be nil
}

// release ends one piece's use and frees the memory with the last.
func (l *lot) release() error {
	if l.users.Add(-1) > 0 {
		return nil
	}
	var err error
	if l.block != nil {
		err = l.block.Close()
	}
	if l.freed != nil {
		l.freed()
	}
	return err
}

// allocate maps and registers the memory of the configuration.
func (n *Node) allocate(ctx context.Context) error {
	for i, size := range n.cfg.Segments {
		o := MountOptions{Size: size}
		if _, err := n.acquire(ctx, fmt.Sprintf("segment %d", i), o); err != nil {
			return err
		}
	}
	return nil
}

// acquire gets the memory of one segment, cuts it up and registers the pieces.
func (n *Node) acquire(ctx context.Context, what string, o MountOptions) ([]*piece, error) {
	op := "store node: " + what
	m := o.Memory
	l := &lot{freed: o.Freed}
	if o.Location == "" {
		o.Location = n.cfg.Location
	}
	if o.Protocol == "" {
		o.Protocol = n.cfg.Protocol
	}
	if len(m.Bytes) == 0 {
		b, err := memory.Allocate(o.Size, memory.Options{
			Name: "mooncake-segment", Location: o.Location, HugePages: n.cfg.HugePages, Prefault: n.cfg.Prefault,
			Placement: n.cfg.Placement, Root: n.cfg.Root, Log: n.deps.Log,
		})
		if err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), op, err)
		}
		l.block = b
		m = transfer.BlockMemory(b, 0)
		m.Bytes = m.Bytes[:o.Size]
	}
	m.Access = transport.AccessRemote
	var made []*piece
	for rest := m; len(rest.Bytes) > 0; {
		size := int(min(n.cfg.piece(uint64(len(m.Bytes))), uint64(len(rest.Bytes))))
		part := rest
		part.Bytes = rest.Bytes[:size:size]
		p := &piece{mem: part.Bytes, lot: l, segment: n.describe(part.Bytes, o.Protocol)}
		l.users.Add(1)
		made = append(made, p)
		var err error
		if p.region, err = n.engine.Register(ctx, part); err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), op, errors.Join(err, n.free(context.WithoutCancel(ctx), made)))
		}
		rest.Bytes = rest.Bytes[size:]
		rest.FDOffset += int64(size)
	}
	n.mu.Lock()
	n.pieces = append(n.pieces, made...)
	n.mu.Unlock()
	return made, nil
}

func (n *Node) describe(mem []byte, protocol string) model.Segment {
	name := n.engine.LocalName()
	return model.Segment{
		ID: model.NewUUID(), Name: name, Base: memory.AddrOf(mem), Size: uint64(len(mem)), Endpoint: name, Protocol: protocol, HostID: hostOf(name),
	}
}

// free ends the registration of pieces and frees their memory. What a peer may still use
// stays mapped, and the error says so.
func (n *Node) free(ctx context.Context, pieces []*piece) error {
	var failed error
	for _, p := range pieces {
		if p.region != 0 {
			// InvalidParams: the engine or its transports were ended before and hold nothing.
			if err := n.engine.Deregister(ctx, p.region); err != nil && !errs.Is(err, errs.InvalidParams) {
				failed = errors.Join(failed, errs.Wrap(errs.Internal, "store node: the memory stays mapped, a peer may still use it", err))
				continue
			}
		}
		failed = errors.Join(failed, p.lot.release())
	}
	return failed
}

// staying returns the pieces that are not being unmounted.
func (n *Node) staying() []*piece {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*piece
	for _, p := range n.pieces {
		if !p.leaving {
			out = append(out, p)
		}
	}
	return out
}

// remove takes pieces out of the node's list.
func (n *Node) remove(gone []*piece) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var rest []*piece
	for _, p := range n.pieces {
		keep := true
		for _, g := range gone {
			keep = keep && p != g
		}
		if keep {
			rest = append(rest, p)
		}
	}
	n.pieces = rest
}
