package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Node contributes memory of this process to the pool: it allocates and registers it,
// publishes it, mounts it at the master and says each second that it is alive. When the
// master or the metadata service has forgotten it, it mounts and publishes again by
// itself. Safe for concurrent use.
type Node struct {
	cfg    NodeConfig
	id     model.ClientID
	master Master
	engine *transfer.Engine
	deps   Deps

	life    sync.Mutex // held by Start and Stop
	pieces  []*piece
	cancel  context.CancelFunc
	loop    sync.WaitGroup
	mounted atomic.Bool
	told    bool // the metadata service was told of this node
}

// piece is one segment with its memory.
type piece struct {
	segment model.Segment
	block   *memory.Block
	region  transport.RegionID
	mounted bool // the master was told of it, and not told otherwise
}

// NewNode makes a node. It acquires nothing.
func NewNode(cfg NodeConfig, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, id: deps.ID, master: deps.Master, engine: deps.Engine, deps: deps}
	r := registrar{reg: deps.Metrics}
	n.metrics(&r)
	return n, errs.Wrap(errs.Internal, "store node: register metrics", r.err)
}

// Start returns once the memory is mounted. On an error nothing is left behind. The
// engine's transports and its directory must be started before.
func (n *Node) Start(ctx context.Context) error {
	n.life.Lock()
	defer n.life.Unlock()
	if n.cancel != nil {
		return errs.New(errs.Internal, "store node: start", "it is started already")
	}
	err := n.allocate(ctx)
	if err == nil {
		err = n.join(ctx)
	}
	if err != nil {
		return errors.Join(err, n.leave(context.WithoutCancel(ctx)))
	}
	n.mounted.Store(true)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.loop.Go(func() { n.beat(run) })
	n.deps.Log.Info("memory is mounted", "segments", len(n.pieces), "name", n.engine.LocalName(), "bytes", n.Size())
	return nil
}

// Stop unmounts, waits until no peer touches the memory any more, and frees it. When the
// context ends first, the memory stays mapped and the error says so. Repeatable.
func (n *Node) Stop(ctx context.Context) error {
	n.life.Lock()
	defer n.life.Unlock()
	if n.cancel != nil {
		n.cancel()
		n.loop.Wait()
		n.cancel = nil
	}
	return n.leave(ctx)
}

// Mounted reports whether the master knows the node's segments, as far as the node knows.
func (n *Node) Mounted() bool { return n.mounted.Load() }

// Size is the number of bytes contributed.
func (n *Node) Size() uint64 {
	total := uint64(0)
	for _, s := range n.cfg.Segments {
		total += s
	}
	return total
}

// allocate maps and registers the memory.
func (n *Node) allocate(ctx context.Context) error {
	for i, size := range n.cfg.Segments {
		b, err := memory.Allocate(size, memory.Options{
			Name: fmt.Sprintf("mooncake-segment-%d", i), Location: n.cfg.Location,
			HugePages: n.cfg.HugePages, Prefault: n.cfg.Prefault, Placement: n.cfg.Placement, Root: n.cfg.Root, Log: n.deps.Log,
		})
		if err != nil {
			return errs.Wrap(errs.CodeOf(err), fmt.Sprintf("store node: segment %d", i), err)
		}
		p := &piece{block: b}
		n.pieces = append(n.pieces, p)
		if p.region, err = n.engine.Register(ctx, transfer.BlockMemory(b, transport.AccessRemote)); err != nil {
			return errs.Wrap(errs.CodeOf(err), fmt.Sprintf("store node: segment %d", i), err)
		}
		name := n.engine.LocalName()
		p.segment = model.Segment{
			ID: model.NewUUID(), Name: name, Base: b.Addr(), Size: size, Endpoint: name, Protocol: n.cfg.Protocol, HostID: hostOf(name),
		}
	}
	return nil
}

// join publishes and mounts, and keeps trying for StartWait.
func (n *Node) join(ctx context.Context) error {
	end := time.Now().Add(n.cfg.StartWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := n.announce(ctx, n.mountEach)
		if err == nil {
			return nil
		}
		if errs.ClassOf(err) == errs.ClassPermanent || ctx.Err() != nil || !time.Now().Add(pause).Before(end) {
			return errs.WithHint(err, "check that the master and the metadata service are running and reachable from here")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// announce makes the node known: first to peers, then to the master, which sends peers.
func (n *Node) announce(ctx context.Context, mount func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.RPCTimeout)
	defer cancel()
	n.told = true
	if err := n.engine.Publish(ctx); err != nil {
		return err
	}
	err := mount(ctx)
	return errs.Wrap(errs.CodeOf(err), "store node: mount "+memory.Human(n.Size())+" at the master", err)
}

func (n *Node) mountEach(ctx context.Context) error {
	for _, p := range n.pieces {
		p.mounted = true // Also when the answer is lost.
		if err := n.master.MountSegment(ctx, n.id, p.segment); err != nil {
			return err
		}
	}
	return nil
}

// mountAgain mounts everything at a master that knows nothing of the node.
func (n *Node) mountAgain(ctx context.Context) error {
	segs := make([]model.Segment, len(n.pieces))
	for i, p := range n.pieces {
		segs[i] = p.segment
	}
	return n.master.RemountSegments(ctx, n.id, segs)
}

// leave undoes what allocate and announce did, in reverse.
func (n *Node) leave(ctx context.Context) error {
	if len(n.pieces) == 0 {
		return nil
	}
	n.depart(ctx)
	var failed error
	for _, p := range n.pieces {
		if p.region != 0 {
			// InvalidParams: the engine or its transports were ended before and hold nothing.
			if err := n.engine.Deregister(ctx, p.region); err != nil && !errs.Is(err, errs.InvalidParams) {
				failed = errors.Join(failed, errs.Wrap(errs.Internal, "store node: the memory stays mapped, a peer may still use it", err))
				continue
			}
		}
		failed = errors.Join(failed, p.block.Close())
	}
	n.pieces = nil
	return failed
}

// depart tells the master and the peers. A master that does not answer finds out by
// itself, so that is logged only.
func (n *Node) depart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
	defer cancel()
	var failed error
	n.mounted.Store(false)
	for _, p := range n.pieces {
		if p.mounted {
			if failed = n.master.UnmountSegment(ctx, n.id, p.segment.ID, 0); failed != nil {
				break
			}
		}
	}
	if n.told {
		failed = errors.Join(failed, n.engine.Withdraw(ctx))
		n.told = false
	}
	if failed != nil {
		n.deps.Log.Warn("the node could not say that it leaves; it will be missed by its timeout", "error", failed)
	}
}
