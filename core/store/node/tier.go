package node

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	disk "github.com/mooncake-go/mooncake/core/tier"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// tierBase is where the addresses of tiers begin, and tierStep the distance between two tiers of a node. No memory lies there.
const (
	tierBase = 1 << 62
	tierStep = 1 << 52
)

// openTiers makes the tiers segments of the node.
func (n *Node) openTiers(ctx context.Context) error {
	t := n.cfg.Tiers
	if !t.enabled() {
		return nil
	}
	block, err := memory.Allocate(t.Staging, memory.Options{Name: "mooncake-staging", Location: n.cfg.Location, HugePages: n.cfg.HugePages, Root: n.cfg.Root, Log: n.deps.Log})
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), "store node: staging memory of storage tiers", err)
	}
	n.staging.block = block
	if n.staging.pool, err = memory.NewPool(block.Bytes()); err != nil {
		return err
	}
	m := transfer.BlockMemory(block, transport.AccessRemoteRead)
	if n.cfg.Grants {
		m.Grants = n.staging.guard(&n.clocks)
	}
	if n.staging.region, err = n.engine.Register(ctx, m); err != nil {
		return err
	}
	for i, each := range t.Each {
		if err := n.openTier(ctx, i, each); err != nil {
			return errs.Wrap(errs.CodeOf(err), "store node: storage tier "+each.Name, err)
		}
	}
	return nil
}

func (n *Node) openTier(ctx context.Context, i int, t *Tier) (err error) {
	if t.disk, err = disk.Open(ctx, t.Tier, t.ledger, n.staging.block.Bytes(), n.staging.block.FD(), n.deps.Log); err != nil {
		return err
	}
	t.rank = t.disk.Rank(t.Policy)
	v, name := t.disk.Volume(), n.engine.LocalName()
	s := &segment{cell: unassigned, tier: t, ledger: t.ledger, acked: t.ledger.Seq(), guard: &guard{refused: n.refused}}
	s.Segment = n.describe(nil, model.ProtocolTier)
	s.ID, s.Name, s.Endpoint = disk.Segment(v), fmt.Sprintf("%s/tier%d", name, i), n.cfg.Tiers.Endpoint
	s.Base, s.Size = tierBase+uint64(i)*tierStep, v.Capacity
	s.guard.segment = s.ID
	s.ledger.SetPlace(ledger.Place{Client: n.session.ID(), Base: s.Base})
	n.assign(s, nil, nil)
	n.mu.Lock()
	n.segments = append(n.segments, s)
	n.mu.Unlock()
	return nil
}

// closeTiers ends what openTiers began.
func (n *Node) closeTiers(ctx context.Context) error {
	if !n.cfg.Tiers.enabled() {
		return nil
	}
	n.staging.dropAll()
	var failed error
	for _, t := range n.cfg.Tiers.Each {
		if t.disk != nil {
			failed = errors.Join(failed, t.disk.Close(ctx))
			t.disk = nil
		}
	}
	if n.staging.region != 0 {
		if err := n.engine.Deregister(ctx, n.staging.region); err != nil && !errs.Is(err, errs.InvalidParams) {
			failed = errors.Join(failed, err)
		}
		n.staging.region = 0
	}
	if failed != nil {
		return errs.Wrap(errs.Internal, "store node: the staging memory of storage tiers stays mapped, it may still be used", failed)
	}
	block := n.staging.block
	n.staging.block, n.staging.pool = nil, nil
	return block.Close()
}

// takesTiers reports whether the master takes storage tiers.
func (c *cell) takesTiers(ctx context.Context) (bool, error) {
	reply, err := c.master.Ping(ctx, c.session.ID(), model.PingReport{})
	if err != nil {
		return false, err
	}
	if reply.Tiers == nil {
		if !c.tierless.Swap(true) {
			c.deps.Log.Warn("this master takes no storage tiers: what lies there is not used, and nothing is saved", "hint", "start the master with --enable_offload")
		}
		return false, nil
	}
	c.tierless.Store(false)
	c.saves.obey(reply.Tiers)
	return true, nil
}

// attachable returns the segments that the master takes. A tier that does not forget is none of them until it does.
func (c *cell) attachable(ctx context.Context) ([]*segment, error) {
	all := c.staying()
	var tiers, rest []*segment
	for _, s := range all {
		if s.tier != nil {
			tiers = append(tiers, s)
		} else {
			rest = append(rest, s)
		}
	}
	if len(tiers) == 0 {
		return all, nil
	}
	takes, err := c.takesTiers(ctx)
	if err != nil || !takes {
		c.mu.Lock()
		for _, s := range tiers {
			s.mounted = false
		}
		c.mu.Unlock()
		return rest, err
	}
	for _, s := range tiers {
		if c.settle(ctx, s) == nil {
			rest = append(rest, s)
			continue
		}
		c.mu.Lock()
		s.mounted = false
		c.mu.Unlock()
	}
	return rest, nil
}

// attachLater mounts a tier that was not attachable, now that it is.
func (n *Node) attachLater(s *segment) {
	n.mu.Lock()
	left := !s.mounted && !s.leaving && s.cell >= 0 && s.cell < len(n.cells)
	n.mu.Unlock()
	if !left {
		return
	}
	if c := n.joinedCells()[s.cell]; c.mounted.Load() && !c.tierless.Load() && s.tier.disk.IsSettled() {
		c.requestMount()
	}
}

// pick returns the tier that keeps an object of a cell, nil for none: keys are spread over the tiers. soon says that there
// are tiers that cannot be used now, because their storage hangs or the master does not know them yet.
func (n *Node) pick(cell int, name string) (s *segment, soon bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*segment
	for _, s := range n.segments {
		switch {
		case s.tier == nil || s.cell != cell || s.leaving:
		case s.mounted && !s.tier.hung.Load():
			all = append(all, s)
		case cell < 0 || cell >= len(n.cells) || !n.cells[cell].tierless.Load():
			soon = true
		}
	}
	if len(all) == 0 {
		return nil, soon
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // It never fails.
	return all[h.Sum32()%uint32(len(all))], false
}

// tierOf returns the tier that a segment is, nil if it is none of this node.
func (n *Node) tierOf(id model.SegmentID) *Tier {
	if s := n.segmentOf(id); s != nil {
		return s.tier
	}
	return nil
}
