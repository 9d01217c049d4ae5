package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// segment is a range of memory that is registered and mounted by itself.
type segment struct {
	model.Segment
	mem     []byte
	block   *block
	region  transport.RegionID // 0 before it is registered
	mounted bool               // the master may know it
	leaving bool               // it is being unmounted
	ledger  *ledger.Log        // what the master has put there
	wiped   bool               // what the ledger had is lost
}

// block is memory that the node allocated, or that a caller handed over, as one.
type block struct {
	memory *memory.Block // nil for memory that the caller owns
	users  atomic.Int32  // segments that are not freed yet
	freed  func()        // called when the memory is no longer used, may be nil
}

// release ends the use by one segment, and frees the memory with the last.
func (b *block) release() error {
	if b.users.Add(-1) > 0 {
		return nil
	}
	var err error
	if b.memory != nil {
		err = b.memory.Close()
	}
	if b.freed != nil {
		b.freed()
	}
	return err
}

// allocate maps and registers the memory of the configuration.
func (n *Node) allocate(ctx context.Context) error {
	for i, size := range n.cfg.Segments {
		if _, err := n.acquire(ctx, fmt.Sprintf("segment %d", i), MountOptions{Size: size}); err != nil {
			return err
		}
	}
	return nil
}

// acquire gets memory, divides it into segments and registers them.
func (n *Node) acquire(ctx context.Context, what string, o MountOptions) ([]*segment, error) {
	op := "store node: " + what
	m := o.Memory
	b := &block{freed: o.Freed}
	if o.Location == "" {
		o.Location = n.cfg.Location
	}
	if o.Protocol == "" {
		o.Protocol = n.cfg.Protocol
	}
	if len(m.Bytes) == 0 {
		var err error
		b.memory, err = memory.Allocate(o.Size, memory.Options{
			Name: "mooncake-segment", Location: o.Location, HugePages: n.cfg.HugePages, Prefault: n.cfg.Prefault,
			Placement: n.cfg.Placement, Root: n.cfg.Root, Log: n.deps.Log,
		})
		if err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), op, err)
		}
		m = transfer.BlockMemory(b.memory, 0)
		m.Bytes = m.Bytes[:o.Size]
	}
	m.Access = transport.AccessRemote
	var made []*segment
	for rest, size := m, int(n.cfg.segmentSize(uint64(len(m.Bytes)))); len(rest.Bytes) > 0; {
		size = min(size, len(rest.Bytes))
		one := rest
		one.Bytes = rest.Bytes[:size:size]
		s := &segment{Segment: n.describe(one.Bytes, o.Protocol), mem: one.Bytes, block: b}
		b.users.Add(1)
		made = append(made, s)
		var err error
		if s.ledger, err = newLedger(&s.Segment); err != nil {
			return nil, errs.Wrap(errs.Internal, op, errors.Join(err, n.free(context.WithoutCancel(ctx), made)))
		}
		if s.region, err = n.engine.Register(ctx, one); err != nil {
			return nil, errs.Wrap(errs.CodeOf(err), op, errors.Join(err, n.free(context.WithoutCancel(ctx), made)))
		}
		rest.Bytes = rest.Bytes[size:]
		rest.FDOffset += int64(size)
	}
	n.mu.Lock()
	n.segments = append(n.segments, made...)
	n.mu.Unlock()
	return made, nil
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
		failed = errors.Join(failed, s.block.release())
	}
	return failed
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
