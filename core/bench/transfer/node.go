package transfer

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Node is a process that takes part: an engine and what is needed around it. The caller
// closes the engine, after the Target and the Session over it.
type Node struct {
	Engine *te.Engine
	// Lookup returns what a segment publishes.
	Lookup func(ctx context.Context, segment string) (*metadata.Descriptor, error)
	// Allocate returns host memory.
	Allocate func(name string, size uint64) (*memory.Block, error)
}

// cleanupTimeout bounds giving memory back.
const cleanupTimeout = 10 * time.Second

// area is registered memory.
type area struct {
	node  Node
	block *memory.Block
	id    transport.RegionID
}

func (n Node) area(ctx context.Context, name string, size uint64, access transport.Access) (*area, error) {
	block, err := n.Allocate(name, size)
	if err != nil {
		return nil, err
	}
	id, err := n.Engine.Register(ctx, te.BlockMemory(block, access))
	if err != nil {
		return nil, errors.Join(err, block.Close())
	}
	return &area{node: n, block: block, id: id}, nil
}

func (a *area) bytes() []byte { return a.block.Bytes() }

// close frees the memory, unless it may still be touched.
func (a *area) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := a.node.Engine.Deregister(ctx, a.id); err != nil {
		return err
	}
	return a.block.Close()
}

// Target is memory that peers read and write.
type Target struct{ area *area }

// NewTarget allocates size bytes, registers them and publishes them. Close it.
func NewTarget(ctx context.Context, n Node, size uint64) (*Target, error) {
	a, err := n.area(ctx, "mooncake-bench-target", size, transport.AccessRemote)
	if err != nil {
		return nil, err
	}
	if err := n.Engine.Publish(ctx); err != nil {
		return nil, errors.Join(err, a.close(ctx))
	}
	return &Target{area: a}, nil
}

// Segment is the name that a Session connects to.
func (t *Target) Segment() string { return t.area.node.Engine.LocalName() }

// Size is the memory in bytes.
func (t *Target) Size() uint64 { return t.area.block.Size() }

// Close withdraws and frees the memory. A peer that is using it sees its requests fail.
func (t *Target) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return errors.Join(t.area.node.Engine.Withdraw(ctx), t.area.close(ctx))
}

// extent is a range of a segment that is open to peers.
type extent struct{ addr, length uint64 }

// largest returns the largest range that a segment opens to peers.
func (n Node) largest(ctx context.Context, segment string) (extent, error) {
	segment = strings.TrimPrefix(segment, "/")
	d, err := n.Lookup(ctx, segment)
	if errors.Is(err, metadata.ErrNotFound) {
		return extent{}, errs.WithHint(err, "a target is started with --mode=target and says its segment's name")
	}
	if err != nil {
		return extent{}, err
	}
	var best extent
	take := func(addr, length uint64) {
		if length > best.length {
			best = extent{addr, length}
		}
	}
	for _, b := range d.Buffers {
		take(b.Addr, b.Length)
	}
	for _, t := range d.Transports {
		for _, r := range t.Regions {
			take(r.Addr, r.Length)
		}
	}
	if best.length == 0 {
		return extent{}, errs.New(errs.InvalidReplica, "bench transfer: segment "+segment, "it opens no memory to peers")
	}
	return best, nil
}
