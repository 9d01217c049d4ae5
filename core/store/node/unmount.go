package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// lingering is how much longer than the grace of an unmount its memory stays registered, for
	// readers that began just before the end.
	lingering = 10 * time.Second
	// freeTimeout bounds the wait for the last reader then.
	freeTimeout = 30 * time.Second
)

// UnmountSegments takes segments out of the pool. With a grace the master places no more objects
// there, and the memory stays readable for the grace; then the node frees it in the background. The
// call returns when the master knows. Without a grace the call returns when the memory is freed.
// SegmentNotFound, before anything is done, for an ID that is not of this node or is being unmounted
// already.
func (n *Node) UnmountSegments(ctx context.Context, ids []model.SegmentID, grace time.Duration) error {
	const op = "store node: unmount"
	if grace < 0 {
		return errs.New(errs.InvalidParams, op, "the grace is %v, must be 0 or more", grace)
	}
	going, err := n.choose(ids)
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	if err := n.withdraw(ctx, going, grace); err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	if grace == 0 {
		return n.retire(ctx, going)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open { // Otherwise Stop frees them.
		run := n.run
		n.loop.Go(func() { n.retireLater(run, going, grace) })
	}
	return nil
}

// UnmountTiers takes the storage tiers out of the pool until the process ends: the master drops what lies there, and the node
// saves nothing any more. Peers that are reading go on; the call returns when the grace for them, the context or the node
// ends. A node without storage tiers, or whose tiers are unmounted, only logs that. After an error the tiers stay as they are.
func (n *Node) UnmountTiers(ctx context.Context, grace time.Duration) error {
	const op = "store node: unmount storage tiers"
	if grace < 0 {
		return errs.New(errs.InvalidParams, op, "the grace is %v, must be 0 or more", grace)
	}
	n.mu.Lock()
	run := n.run
	var ids []model.SegmentID
	for _, s := range n.segments {
		if s.tier != nil && !s.leaving {
			ids = append(ids, s.ID)
		}
	}
	n.mu.Unlock()
	if len(ids) == 0 {
		n.deps.Log.Warn("this node has no storage tier to unmount")
		return nil
	}
	going, err := n.choose(ids)
	if err == nil {
		err = n.withdraw(ctx, going, 0)
	}
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-run.Done():
	}
	return nil
}

// withdraw is unmount of segments that are marked as leaving. After an error those that the master may still know stay.
func (n *Node) withdraw(ctx context.Context, going []*segment, grace time.Duration) error {
	err := n.unmount(ctx, going, grace)
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, s := range going {
			s.leaving = !s.mounted
		}
	}
	return err
}

// choose finds segments and marks them as leaving, all or none.
func (n *Node) choose(ids []model.SegmentID) ([]*segment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.open {
		return nil, errOutside
	}
	byID := make(map[model.SegmentID]*segment, len(n.segments))
	for _, s := range n.segments {
		if !s.leaving {
			byID[s.ID] = s
		}
	}
	var out []*segment
	for _, id := range ids {
		s := byID[id]
		if s == nil {
			return nil, errs.New(errs.SegmentNotFound, "", "this node has no segment %v, or is unmounting it", id)
		}
		delete(byID, id)
		out = append(out, s)
	}
	for _, s := range out {
		s.leaving = true
	}
	return out, nil
}

// unmount tells the masters that segments go, except those that no master can know. A master that does not answer keeps no other
// one from hearing it.
func (n *Node) unmount(ctx context.Context, segments []*segment, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
	defer cancel()
	cells := map[int][]*segment{}
	for _, s := range segments {
		n.mu.Lock()
		if s.mounted {
			cells[s.cell] = append(cells[s.cell], s)
		}
		n.mu.Unlock()
	}
	failed := make(chan error, len(cells))
	for _, of := range cells {
		go func() { failed <- n.unmountCell(ctx, of, grace) }()
	}
	var all error
	for range cells {
		all = errors.Join(all, <-failed)
	}
	return all
}

// unmountCell tells the master of a cell that segments go.
func (n *Node) unmountCell(ctx context.Context, segments []*segment, grace time.Duration) error {
	for _, s := range segments {
		if err := n.unmountAt(ctx, s, grace); err != nil {
			return err
		}
		n.mu.Lock()
		s.mounted = false
		n.mu.Unlock()
	}
	return nil
}

// unmountAt tells the master of a segment that it goes.
func (n *Node) unmountAt(ctx context.Context, s *segment, grace time.Duration) error {
	all := n.joinedCells()
	if s.cell < 0 || s.cell >= len(all) {
		return nil // No master knows it.
	}
	call := func(ctx context.Context) error {
		return all[s.cell].master.UnmountSegment(ctx, n.session.ID(), s.ID, grace)
	}
	if len(all) > 1 { // One cell says nothing of the session with the others.
		defer n.session.Record("UnmountSegment", time.Now())
		return call(ctx)
	}
	return session.Do(ctx, n.session, "UnmountSegment", call)
}

// retire frees segments and publishes that they are gone.
func (n *Node) retire(ctx context.Context, segments []*segment) error {
	n.forget(ctx, segments)
	err := n.free(ctx, segments)
	n.remove(segments)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.RPCTimeout)
	defer cancel()
	if e := n.engine.Publish(call); e != nil {
		n.deps.Log.Warn("the metadata service still lists memory that is gone; the node publishes again", "error", e)
	}
	return err
}

// retireLater frees segments after a grace, unless the node stops before, which frees them as well.
func (n *Node) retireLater(run context.Context, segments []*segment, grace time.Duration) {
	timer := time.NewTimer(grace + lingering)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-run.Done():
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), freeTimeout)
	defer cancel()
	if err := n.retire(ctx, segments); err != nil {
		n.deps.Log.Error("unmounted memory could not be freed", "error", err)
	}
}

// unmountWithGrace stops the master from placing objects here and waits StopGrace, while readers
// finish.
func (n *Node) unmountWithGrace(ctx context.Context) {
	if n.cfg.StopGrace == 0 {
		return
	}
	segments := n.ending(ctx, n.staying())
	if len(segments) == 0 {
		return
	}
	n.mu.Lock()
	segments = slices.DeleteFunc(slices.Clone(segments), func(s *segment) bool { return !s.mounted })
	n.mu.Unlock()
	_ = n.unmount(ctx, segments, n.cfg.StopGrace) // sayGoodbye logs what it meets again.
	n.mu.Lock()
	heard := slices.DeleteFunc(segments, func(s *segment) bool { return s.mounted })
	n.mu.Unlock()
	if len(heard) == 0 {
		return
	}
	timer := time.NewTimer(n.cfg.StopGrace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	// With a second unmount the master removes them before the memory goes, not some time later.
	n.mu.Lock()
	for _, s := range heard {
		s.mounted = true
	}
	n.mu.Unlock()
}

// forget makes the vault forget segments: they end with this process.
func (n *Node) forget(ctx context.Context, segments []*segment) {
	for _, s := range segments {
		n.mu.Lock()
		kept := s.kept
		s.kept = false
		n.mu.Unlock()
		if !kept {
			continue
		}
		if err := n.cfg.Kept.drop(ctx, s.ID); err != nil {
			n.deps.Log.Error("memory that is not used any more stays kept until the next process of this store", "segment", s.ID.String(), "error", err)
		}
	}
}

// ending returns the segments that end with the process, and has the vault forget those of them that it keeps.
func (n *Node) ending(ctx context.Context, segments []*segment) []*segment {
	var going, out []*segment
	n.mu.Lock()
	for _, s := range segments {
		if s.leaving {
			going = append(going, s)
		}
		if s.leaving || !s.kept && s.tier == nil {
			out = append(out, s)
		}
	}
	n.mu.Unlock()
	n.forget(ctx, going)
	return out
}

// leave undoes allocate and announce, in reverse.
func (n *Node) leave(ctx context.Context) error {
	n.mu.Lock()
	segments, published := n.segments, n.published
	n.published = false
	n.mu.Unlock()
	if len(segments) == 0 && !published {
		return nil
	}
	n.sayGoodbye(ctx, segments, published)
	err := errors.Join(n.closeTiers(ctx), n.free(ctx, segments))
	n.remove(segments)
	if published && n.cfg.SharedEngine {
		ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		defer cancel()
		if e := n.engine.Publish(ctx); e != nil {
			n.deps.Log.Warn("the metadata service still lists memory of a node that left", "error", e)
		}
	}
	return err
}

// sayGoodbye unmounts the segments and withdraws the descriptor. It only logs an error, since a
// master that does not answer finds out by itself.
func (n *Node) sayGoodbye(ctx context.Context, segments []*segment, published bool) {
	for _, c := range n.joinedCells() {
		c.mounted.Store(false)
	}
	failed := n.unmount(ctx, n.ending(ctx, segments), 0)
	if published && !n.cfg.SharedEngine {
		ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
		defer cancel()
		failed = errors.Join(failed, n.engine.Withdraw(ctx))
	}
	if failed != nil && n.Joined() {
		n.deps.Log.Warn("the node could not announce that it leaves; the master notices by its timeout", "error", failed)
	}
}
