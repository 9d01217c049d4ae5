package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// mountEach mounts pieces one by one.
func (n *Node) mountEach(ctx context.Context, pieces []*piece) error {
	for _, p := range pieces {
		n.mu.Lock()
		p.mounted = true // Also when the answer is lost.
		n.mu.Unlock()
		t0 := time.Now()
		err := n.master.MountSegment(ctx, n.session.id, p.segment)
		n.session.metrics.rpc("MountSegment", time.Since(t0))
		if err != nil {
			return err
		}
	}
	return nil
}

// mountAgain mounts everything at a master that knows nothing of the node. A node without
// memory becomes known, so that its pings are answered as those of others.
func (n *Node) mountAgain(ctx context.Context) error {
	pieces := n.staying()
	segs := make([]model.Segment, len(pieces))
	for i, p := range pieces {
		segs[i] = p.segment
	}
	t0 := time.Now()
	defer func() { n.session.metrics.rpc("ReMountSegment", time.Since(t0)) }()
	return n.master.RemountSegments(ctx, n.session.id, segs)
}

// unmount tells the master that pieces go. It skips those that the master was not told of.
func (n *Node) unmount(ctx context.Context, pieces []*piece, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
	defer cancel()
	for _, p := range pieces {
		n.mu.Lock()
		there := p.mounted
		n.mu.Unlock()
		if !there {
			continue
		}
		err := asked(ctx, n.session, "UnmountSegment", func(ctx context.Context) error {
			return n.master.UnmountSegment(ctx, n.session.id, p.segment.ID, grace)
		})
		if err != nil {
			return err
		}
		n.mu.Lock()
		p.mounted = false
		n.mu.Unlock()
	}
	return nil
}

// retire frees pieces and tells peers that they are gone.
func (n *Node) retire(ctx context.Context, pieces []*piece) error {
	err := n.free(ctx, pieces)
	n.remove(pieces)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.RPCTimeout)
	defer cancel()
	if e := n.engine.Publish(call); e != nil {
		n.deps.Log.Warn("the metadata service still lists memory that is gone; it is told again", "error", e)
	}
	return err
}

// linger frees pieces after a grace, unless the node stops before, which frees them as well.
func (n *Node) linger(run context.Context, pieces []*piece, grace time.Duration) {
	timer := time.NewTimer(grace + lingering)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-run.Done():
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), freeTimeout)
	defer cancel()
	if err := n.retire(ctx, pieces); err != nil {
		n.deps.Log.Error("unmounted memory could not be freed", "error", err)
	}
}

// fadeOut has the master place nothing more here and waits StopGrace, while readers finish.
func (n *Node) fadeOut(ctx context.Context) {
	if n.cfg.StopGrace == 0 {
		return
	}
	pieces := n.staying()
	if err := n.unmount(ctx, pieces, n.cfg.StopGrace); err != nil {
		return // depart says so.
	}
	timer := time.NewTimer(n.cfg.StopGrace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	// Told again, the master takes them out before the memory goes, not at its next look.
	n.mu.Lock()
	for _, p := range pieces {
		p.mounted = true
	}
	n.mu.Unlock()
}

// leave undoes what allocate and announce did, in reverse.
func (n *Node) leave(ctx context.Context) error {
	n.mu.Lock()
	pieces, told := n.pieces, n.told
	n.told = false
	n.mu.Unlock()
	if len(pieces) == 0 && !told {
		return nil
	}
	n.depart(ctx, pieces, told)
	err := n.free(ctx, pieces)
	n.remove(pieces)
	if told && n.cfg.SharedEngine {
		ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		defer cancel()
		if e := n.engine.Publish(ctx); e != nil {
			n.deps.Log.Warn("the metadata service still lists memory of a node that left", "error", e)
		}
	}
	return err
}

// depart tells the master and the peers. A master that does not answer finds out by
// itself, so that is logged only.
func (n *Node) depart(ctx context.Context, pieces []*piece, told bool) {
	n.mounted.Store(false)
	failed := n.unmount(ctx, pieces, 0)
	if told && !n.cfg.SharedEngine {
		ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		defer cancel()
		failed = errors.Join(failed, n.engine.Withdraw(ctx))
	}
	if failed != nil && n.joined.Load() {
		n.deps.Log.Warn("the node could not say that it leaves; it will be missed by its timeout", "error", failed)
	}
}
