// Package node contributes memory of a process to the pool.
package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Node contributes memory of this process to the pool. It allocates, registers and publishes the
// memory and mounts it at the master, has the session keep it alive, and carries out the copies and
// moves that the master assigns to it. It mounts and publishes again by itself when the master or
// the metadata service has forgotten it. Safe for concurrent use.
type Node struct {
	cfg     Config
	session *session.Session
	own     bool // the session ends with the node
	master  store.Master
	engine  *transfer.Engine
	deps    session.Deps
	tasks   *taskRunner
	saves   *saver
	staging staging
	clocks  clocks

	startStop sync.Mutex // held by Begin and Stop
	cancel    context.CancelFunc
	loop      sync.WaitGroup

	mu        sync.Mutex // guards segments and their fields
	segments  []*segment
	open      bool            // MountSegment is allowed
	run       context.Context // ends with the node
	published bool            // the metadata service may know this node
	late      bool            // Await gave up before the node had joined
	cells     []*cell         // nil while their number is not known
	count     int             // of cells, 0 while it is not known
	fetching  sync.Once       // of tasks
	pieces    int             // into how many segments memory is divided at least, so that each cell gets some
	refused   *refusals
}

// cell is a node as the master of one cell sees it: with the segments that belong to the cell. A pool without cells is one.
type cell struct {
	*Node
	index, of int
	master    store.Master

	joinErr   error         // of the last attempt to join; guarded by mu of the node
	joined    atomic.Bool   // the memory was mounted once
	attempts  atomic.Uint64 // completed attempts to join
	mounted   atomic.Bool
	since     atomic.Pointer[time.Time] // when the memory was mounted last
	tierless  atomic.Bool               // the master takes no storage tiers
	remount   chan struct{}             // capacity 1: the master does not know the node
	attached  chan struct{}             // capacity 1: a segment was attached
	plain     atomic.Bool               // the master keeps no ledgers
	mounting  *semaphore.Weighted       // of one mount at a time: a second attach would end the reports of the first
	followers map[string]*follower      // by address; of the goroutine that pulls
	// attachedAgain is when the node attached last, in Unix nanoseconds, 0 before the second time.
	attachedAgain atomic.Int64
}

const (
	// cellPatience is how long the start of a node waits for the number of cells. A node that starts without it divides its
	// memory when it is known.
	cellPatience = 250 * time.Millisecond
	// unassigned is the cell of a segment that has none yet.
	unassigned = -1
)

// follower is a master that follows the one that leads, and that this node tells what its ledgers have.
type follower struct {
	news chan struct{} // capacity 1: a ledger has changed
	stop context.CancelFunc
	keys []followerKey // that it has; of its goroutine
}

// followerKey is a key that a follower has.
type followerKey struct {
	segment *segment
	number  uint32
}

// New makes a node. It acquires nothing.
func New(cfg Config, deps session.Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, own, err := deps.Open()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, session: s, own: own, master: deps.Master, engine: deps.Engine, deps: deps, pieces: 1}
	r := promreg.Registry{To: deps.Metrics}
	r.Gauge("mooncake_node_segment_bytes", "Memory contributed to the pool.", func() float64 { return float64(n.Size()) })
	r.Gauge("mooncake_node_mounted", "1 while the master knows the segments of this node.", func() float64 {
		if n.Mounted() {
			return 1
		}
		return 0
	})
	n.refused = &refusals{total: r.Counter("mooncake_node_writes_refused_total", "Writes of peers that were refused because no unfinished put had the memory.")}
	n.tasks = newTaskRunner(n, &r)
	if cfg.Tiers.enabled() {
		n.saves = newSaver(n, &r)
	}
	if r.Err != nil {
		n.closeSession()
		return nil, errs.Wrap(errs.Internal, "store node: register metrics", r.Err)
	}
	return n, nil
}

// Start is Begin followed by Await for StartWait. On an error it leaves nothing behind, and the node
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

// Begin provides the memory. The node then joins the pool in the background, whenever the master and
// the metadata service answer, until Stop. On an error Begin leaves nothing behind, and the node
// cannot be started again. The engine's transports and its directory must be started before.
func (n *Node) Begin(ctx context.Context) error {
	n.startStop.Lock()
	defer n.startStop.Unlock()
	if n.cancel != nil {
		return errs.New(errs.Internal, "store node: start", "it is started already")
	}
	masters := n.soonKnown(ctx)
	err := n.allocate(ctx)
	if err == nil {
		err = n.openTiers(ctx)
	}
	if err != nil {
		err = errors.Join(err, n.leave(context.WithoutCancel(ctx)))
		n.closeSession()
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.mu.Lock()
	n.run = run
	n.mu.Unlock()
	if masters != nil {
		n.enter(run, masters)
	} else {
		n.loop.Go(func() { n.enterLater(run) })
	}
	n.session.Attach(n)
	n.loop.Go(func() { n.checkPublished(run) })
	if n.cfg.Kept != nil {
		n.loop.Go(func() { n.keepKept(run) })
	}
	return nil
}

// Stop unmounts, waits StopGrace, then until no peer touches the memory any more, and frees it. When
// the context ends first, the memory stays mapped and the error says so. Repeatable.
func (n *Node) Stop(ctx context.Context) error {
	n.startStop.Lock()
	defer n.startStop.Unlock()
	n.mu.Lock()
	n.open = false
	n.mu.Unlock()
	if n.cancel != nil {
		if n.Joined() {
			n.saves.drain(ctx, max(n.cfg.StopGrace, leastDrain))
			n.unmountWithGrace(ctx)
		}
		n.cancel()
		n.loop.Wait()
		n.session.Detach(n)
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

// Mounted reports whether the masters of all cells know the node's segments, as far as the node knows.
func (n *Node) Mounted() bool {
	all := n.joinedCells()
	return len(all) > 0 && !slices.ContainsFunc(all, func(c *cell) bool { return !c.mounted.Load() })
}

// Health reports whether the master answers, without asking it.
func (n *Node) Health() session.Health { return n.session.Health() }

// Size is the number of bytes of memory contributed.
func (n *Node) Size() uint64 {
	total := uint64(0)
	for _, s := range n.staying() {
		if s.tier == nil {
			total += s.Size
		}
	}
	return total
}

// announce makes the node known, first to peers and then to the master, which sends peers here.
func (n *Node) announce(ctx context.Context, mount func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.RPCTimeout)
	defer cancel()
	n.mu.Lock()
	n.published = true
	n.mu.Unlock()
	if err := n.engine.Publish(ctx); err != nil {
		return err
	}
	err := mount(ctx)
	return errs.Wrap(errs.CodeOf(err), "store node: mount "+memory.Human(n.Size())+" at the master", err)
}

// soonKnown returns the masters of the cells, nil while their number is not known, and notes into how many pieces memory is
// divided.
func (n *Node) soonKnown(ctx context.Context) []store.Master {
	celled, ok := n.master.(store.Celled)
	if !ok {
		n.count = 1
		return []store.Master{n.master}
	}
	ctx, cancel := context.WithTimeout(ctx, cellPatience)
	defer cancel()
	masters, err := celled.Masters(ctx)
	if err != nil {
		return nil
	}
	n.count, n.pieces = len(masters), len(masters)
	return masters
}

// enterLater is enter where the number of cells was not known at the start.
func (n *Node) enterLater(ctx context.Context) {
	masters, err := n.master.(store.Celled).Masters(ctx) //nolint:forcetypeassert // soonKnown has seen it.
	if err == nil {
		n.enter(ctx, masters)
		n.session.TriedToJoin()
	}
}

// enter makes the node one of the cells that these masters lead, and joins each of them in the background until ctx ends.
func (n *Node) enter(ctx context.Context, masters []store.Master) {
	all := make([]*cell, len(masters))
	for i, m := range masters {
		all[i] = &cell{Node: n, index: i, of: len(masters), master: m, remount: make(chan struct{}, 1), attached: make(chan struct{}, 1), mounting: semaphore.NewWeighted(1), followers: map[string]*follower{}}
	}
	n.mu.Lock()
	n.count, n.pieces = len(masters), len(masters)
	n.mu.Unlock()
	if err := n.settleCells(ctx); err != nil {
		n.deps.Log.Error("the memory of this node could not be divided among the cells of the pool", "cells", len(masters), "error", err)
	}
	n.mu.Lock()
	n.cells = all
	n.mu.Unlock()
	for _, c := range all {
		n.loop.Go(func() { c.keepMounted(ctx) })
		n.loop.Go(func() { c.follow(ctx) })
	}
}

// joinedCells returns the cells, nil while their number is not known.
func (n *Node) joinedCells() []*cell {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cells
}
