package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Node contributes memory of this process to the pool: it allocates and registers it,
// publishes it, mounts it at the master, has the session keep it alive, and carries out the
// copies and moves that the master gives it. When the master or the metadata service has
// forgotten it, it mounts and publishes again by itself. Safe for concurrent use.
type Node struct {
	cfg     NodeConfig
	session *Session
	own     bool // the session ends with the node
	master  Master
	engine  *transfer.Engine
	deps    Deps

	life   sync.Mutex // held by Start and Stop
	cancel context.CancelFunc
	loop   sync.WaitGroup
	tasks  *executor

	mu      sync.Mutex // guards pieces and what is in them
	pieces  []*piece
	open    bool            // MountSegment is allowed
	run     context.Context // ends with the node
	told    bool            // the metadata service was told of this node
	joinErr error           // of the last attempt to join
	late    bool            // Await gave up before the node had joined
	joined  atomic.Bool     // the memory was mounted once
	tries   atomic.Uint64   // attempts to join that have ended
	mounted atomic.Bool
	remount chan struct{} // capacity 1: the master does not know the node
}

// NewNode makes a node. It acquires nothing.
func NewNode(cfg NodeConfig, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, master: deps.Master, engine: deps.Engine, deps: deps, remount: make(chan struct{}, 1)}
	r := registrar{reg: deps.Metrics}
	m := n.metrics(&r)
	if r.err != nil {
		return nil, errs.Wrap(errs.Internal, "store node: register metrics", r.err)
	}
	var err error
	if n.session, n.own, err = deps.session(); err != nil {
		return nil, err
	}
	n.tasks = newExecutor(cfg, n.session, deps, m)
	return n, nil
}

// Start is Begin, and Await for StartWait. On an error nothing is left behind, and the node
// cannot be started again.
func (n *Node) Start(ctx context.Context) error {
	err := n.Begin(ctx)
	if err != nil {
		return err
	}
	if err = n.Await(ctx, n.cfg.StartWait); err != nil {
		return errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// Begin provides the memory and has the node join the pool in the background, however long the
// master and the metadata service take to be there: Stop ends it. On an error nothing is left
// behind, and the node cannot be started again. The engine's transports and its directory must be
// started before.
func (n *Node) Begin(ctx context.Context) error {
	n.life.Lock()
	defer n.life.Unlock()
	if n.cancel != nil {
		return errs.New(errs.Internal, "store node: start", "it is started already")
	}
	if err := n.allocate(ctx); err != nil {
		err = errors.Join(err, n.leave(context.WithoutCancel(ctx)))
		n.closeSession()
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.mu.Lock()
	n.run = run
	n.mu.Unlock()
	n.session.attach(n)
	n.loop.Go(func() { n.tend(run) })
	return nil
}

// Stop unmounts, waits StopGrace, then until no peer touches the memory any more, and frees
// it. When the context ends first, the memory stays mapped and the error says so. Repeatable.
func (n *Node) Stop(ctx context.Context) error {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	n.open = false
	n.mu.Unlock()
	if n.cancel != nil {
		if n.joined.Load() {
			n.fadeOut(ctx)
		}
		n.cancel()
		n.loop.Wait()
		n.session.detach(n)
		n.cancel = nil
	}
	err := n.leave(ctx)
	n.closeSession()
	return err
}

func (n *Node) closeSession() {
	if n.own {
		n.session.Close()
	}
}

// Mounted reports whether the master knows the node's segments, as far as the node knows.
func (n *Node) Mounted() bool { return n.mounted.Load() }

// Health tells whether the master answers, as far as is known without asking it.
func (n *Node) Health() Health { return n.session.Health() }

// Size is the number of bytes contributed.
func (n *Node) Size() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	total := uint64(0)
	for _, p := range n.pieces {
		if !p.leaving {
			total += p.segment.Size
		}
	}
	return total
}

// announce makes the node known: first to peers, then to the master, which sends peers.
func (n *Node) announce(ctx context.Context, mount func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.RPCTimeout)
	defer cancel()
	n.mu.Lock()
	n.told = true
	n.mu.Unlock()
	if err := n.engine.Publish(ctx); err != nil {
		return err
	}
	err := mount(ctx)
	return errs.Wrap(errs.CodeOf(err), "store node: mount "+memory.Human(n.Size())+" at the master", err)
}
