package master

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/master/evictor"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/placement"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// object describes an item for the table.
func (p *put) object(i int, copies [][]segments.Extent) objects.NewObject {
	n := objects.NewObject{
		Key: p.scope.name(p.items[i].Key), Size: p.items[i].Size, Client: p.client, Copies: copies, Settings: p.set, Replace: p.cfg.Upsert, Plain: p.plain,
	}
	if g := p.items[i].Group; g != "" {
		n.Settings.Group = p.scope.name(g)
	}
	return n
}

// allocate makes one call to the allocator for all of todo, and another for copies that found no
// space where they were planned. It enters the objects that got space and leaves the rest in todo.
func (p *put) allocate(ctx context.Context) error {
	s := p.s
	s.pool.Enter()
	defer s.pool.Leave()
	view := s.registry.View()
	plan := placement.NewPlanner(view, s.strategy, placement.Wish{
		Copies: p.copies, Preferred: p.cfg.PreferredSegments,
		HostID: p.cfg.HostID, SameNode: p.cfg.SameNode, Plain: p.plain,
	})
	if plan.Copies() == 0 {
		return nil
	}
	got, err := p.ask(ctx, view, plan)
	if err != nil {
		return err
	}
	var (
		rest   []int
		unused []segments.Extent
		bin    objects.Bin
	)
	for n, i := range p.todo {
		if len(got[n]) == 0 {
			rest = append(rest, i)
			continue
		}
		switch out := p.enter(i, got[n], &bin); out {
		case objects.Done:
			for _, parts := range got[n] {
				p.touched.addAll(parts)
			}
		case objects.Missing:
			// Its segments went away between the two steps.
			unused = append(unused, slices.Concat(got[n]...)...)
			rest = append(rest, i)
		default:
			unused = append(unused, slices.Concat(got[n]...)...)
			p.out[i].Err = outcomeError(out, opPutStart, p.items[i].Key)
		}
	}
	p.todo = rest
	p.displaced(ctx, &bin)
	s.pool.Free(ctx, unused)
	return nil
}

// enter puts one item into the table.
func (p *put) enter(i int, copies [][]segments.Extent, bin *objects.Bin) objects.Outcome {
	head := len(p.buf)
	n := p.object(i, copies)
	var out objects.Outcome
	p.buf, out = p.s.table.Put(&n, p.now, p.s.cfg.PutDiscardTimeout, p.buf, bin)
	if out != objects.Done {
		return out
	}
	p.begun(i)
	p.out[i].Value = p.buf[head:len(p.buf):len(p.buf)]
	if p.unused != nil {
		p.unused[i] -= n.Size * uint64(len(copies))
	}
	if len(copies) < int(p.cfg.ReplicaNum) {
		p.s.counters.PartialAllocs.Add(1)
	}
	if p.cfg.Upsert {
		p.s.counters.Upserts.Add(1)
	}
	return out
}

// displaced reclaims what made way: overdue puts, and what upserts replace.
func (p *put) displaced(ctx context.Context, bin *objects.Bin) {
	why := history.ReplacedWhileUnfinished
	if p.cfg.Upsert {
		why = history.ReplacedByUpsert
	}
	for i := range bin.Objects {
		if bin.Objects[i].Unfinished {
			p.s.counters.Discarded.Add(1)
		}
	}
	p.touched.addBin(bin)
	p.s.reclaim(ctx, bin, why, false)
}

// pieceSize is the size of the pieces in which an item is placed: its own size as a rule.
// 0 is none that could work.
func (p *put) pieceSize(i int, v *segments.View) uint64 {
	size, stripe := p.items[i].Size, p.s.cfg.StripeSize
	if p.plain {
		return placement.WholeSize(size, v.LargestPlain)
	}
	if p.split > 1 {
		stripe = min(stripe, max(size/p.split, minPiece))
	}
	return placement.PieceSize(size, stripe, v.Largest)
}

// asking is what is asked of the allocator: the requests of one copy follow each other.
type asking struct {
	requests []alloc.Request
	owners   []int // which of todo each request is for
	starts   []int // which requests begin a copy
}

func (a *asking) add(n int, candidates []alloc.SpaceID, size, piece uint64) {
	a.starts = append(a.starts, len(a.requests))
	a.requests = placement.Stripe(a.requests, candidates, size, piece)
	for len(a.owners) < len(a.requests) {
		a.owners = append(a.owners, n)
	}
}

// ask returns the extents of the copies of each item of todo, empty if there is no space.
func (p *put) ask(ctx context.Context, v *segments.View, plan *placement.Planner) ([][][]segments.Extent, error) {
	var (
		got   = make([][][]segments.Extent, len(p.todo))
		lists [][]alloc.SpaceID
		a     = asking{requests: make([]alloc.Request, 0, len(p.todo)*plan.Copies()), owners: make([]int, 0, len(p.todo)*plan.Copies())}
	)
	for n, i := range p.todo {
		piece := p.pieceSize(i, v)
		if piece == 0 {
			continue
		}
		lists = plan.For(p.items[i].Key).First(lists[:0])
		for _, candidates := range lists {
			a.add(n, candidates, p.items[i].Size, piece)
		}
	}
	if err := p.collect(ctx, v, &a, got); err != nil || plan.Copies() == 1 {
		return got, err
	}
	rest := asking{}
	for n, i := range p.todo {
		if len(got[n]) == 0 || len(got[n]) == plan.Copies() {
			continue
		}
		var taken []*segments.Segment
		for _, parts := range got[n] {
			for _, e := range parts {
				taken = append(taken, e.Seg)
			}
		}
		if candidates := plan.For(p.items[i].Key).Rest(taken); len(candidates) > 0 {
			rest.add(n, candidates, p.items[i].Size, p.pieceSize(i, v))
		}
	}
	if len(rest.requests) > 0 {
		if err := p.collect(ctx, v, &rest, got); err != nil {
			p.s.log.Warn("further copies could not be placed", "error", err)
		}
	}
	return got, nil
}

// collect makes one call to the allocator and adds the copies that found space to got. The caller
// is inside the gate.
func (p *put) collect(ctx context.Context, v *segments.View, a *asking, got [][][]segments.Extent) error {
	if len(a.requests) == 0 {
		return nil
	}
	results, err := p.s.pool.Alloc(ctx, v, a.requests)
	if err != nil {
		return err
	}
	// One backing array for all extents, and one for the copies of items that have one.
	var (
		extents = make([]segments.Extent, 0, len(results))
		copies  = make([][]segments.Extent, 0, len(a.starts))
		unused  []segments.Extent
	)
	for c, from := range a.starts {
		to := len(results)
		if c+1 < len(a.starts) {
			to = a.starts[c+1]
		}
		head := len(extents)
		for _, r := range results[from:to] {
			if r.Err == nil {
				extents = append(extents, segments.Extent{Seg: v.Space(r.Extent.Space), Offset: r.Extent.Offset, Size: r.Extent.Size})
			}
		}
		parts := extents[head:len(extents):len(extents)]
		if len(parts) < to-from {
			unused = append(unused, parts...)
			continue
		}
		n := a.owners[from]
		if got[n] == nil {
			copies = append(copies, parts)
			got[n] = copies[len(copies)-1 : len(copies) : len(copies)]
			continue
		}
		got[n] = append(got[n], parts)
	}
	p.s.pool.Free(ctx, unused)
	return nil
}

// shortage says why a put found no space.
type shortage struct {
	missing uint64
	last    evictor.Result
}

// makeSpace tries to evict at least need bytes. It reports whether it is worth asking the allocator
// again.
func (s *Service) makeSpace(ctx context.Context, why *shortage, need uint64) bool {
	need = min(need, s.registry.View().Capacity)
	why.last = s.evict(ctx, evictor.Request{Need: need, Floor: need, Soft: s.cfg.EvictSoftPinned, Why: history.EvictedForPut})
	return why.last.Keys > 0
}

// evictTenant makes space in a tenant's quota and returns how many objects went. Objects of other
// tenants stay, and keep their places in the policy's order.
func (s *Service) evictTenant(ctx context.Context, c scope, need uint64) int {
	r := evictor.Request{Need: need, Floor: need, Soft: s.cfg.EvictSoftPinned, Owner: c.tenant, Why: history.EvictedForQuota}
	return s.evict(ctx, r).Keys
}

// evict runs one eviction and counts it.
func (s *Service) evict(ctx context.Context, r evictor.Request) evictor.Result {
	began := time.Now()
	s.counters.EvictAttempts.Add(1)
	res := s.evictor.Evict(ctx, r)
	s.counters.EvictTimes.Observe(time.Since(began))
	if res.Keys > 0 {
		s.counters.EvictSuccesses.Add(1)
	}
	s.counters.EvictedKeys.Add(res.Keys)
	s.counters.EvictedBytes.AddBytes(res.Bytes)
	s.log.Debug("[EVICT-RESULT]", "wanted_bytes", r.Need, "floor_bytes", r.Floor, "freed_bytes", res.Bytes, "keys", res.Keys,
		"looked_up", res.Probed, "soft_pinned", res.Soft, "saving", res.Saving, "why", r.Why.Text(), "error", res.Err)
	return res
}

// evictAtWatermark evicts ahead of need when the pool is fuller than the watermark. What an earlier eviction took and a ledger
// has yet to confirm counts as free: a node that pauses must not lose all of its objects, one eviction after the other.
func (s *Service) evictAtWatermark(ctx context.Context) {
	v := s.registry.View()
	if v.Capacity == 0 || s.cfg.EvictionRatio == 0 {
		return
	}
	used, fill := v.Fill()
	over := fill - s.cfg.EvictionHighWatermark
	if over <= 0 {
		return
	}
	share := min(over+s.cfg.EvictionRatio, 1)
	need := uint64(share * float64(used))
	floor := uint64(max(share/2, over) * float64(used))
	s.log.Debug("[EVICT-TRIGGER]", "used_bytes", used, "capacity_bytes", v.Capacity, "target_bytes", need, "floor_bytes", floor)
	s.evict(ctx, evictor.Request{Need: max(need, 1), Floor: floor, Soft: s.cfg.EvictSoftPinned, Saves: s.saves(), Why: history.EvictedAtWatermark})
}

// saves is how many objects one eviction at the watermark may have saved, see evictor.Request.
func (s *Service) saves() int {
	if !s.table.SaveOnEvict {
		return 0
	}
	return s.cfg.Saves
}

// explain returns the error of a put that found no space.
func (s *Service) explain(ctx context.Context, why *shortage) error {
	v := s.registry.View()
	if v.Capacity == 0 {
		return errs.WithHint(errs.New(errs.NoAvailableHandle, opPutStart, "no segment is mounted"),
			"start a store node, or wait for one to mount again")
	}
	detail := fmt.Sprintf("the pool of %s has no space for %s more", metrics.Bytes(v.Capacity), metrics.Bytes(why.missing))
	if n := s.table.WritingBytes(); n > 0 {
		detail += fmt.Sprintf("; %s are being written", metrics.Bytes(n))
	}
	if n := s.pool.HeldBytes(); n > 0 {
		detail += fmt.Sprintf("; %s wait for a given-up writer or a last reader", metrics.Bytes(n))
	}
	if n := v.Unconfirmed(); n > 0 {
		detail += fmt.Sprintf("; %s wait until store nodes confirm that they are free", metrics.Bytes(n))
	}
	hint := "try again, add a segment, or remove pinned objects"
	if l := s.evictor.Leased(ctx); l.Keys > 0 {
		left := max(l.FirstEnd.Sub(s.clock.Now()), 0).Round(time.Millisecond)
		s.counters.LeaseWaits.Observe(left)
		detail += fmt.Sprintf("; %s in %d objects are leased by readers, the first for another %s", metrics.Bytes(l.Bytes), l.Keys, left)
		hint = fmt.Sprintf("try again after %s, add a segment, or shorten the lease TTL", left)
	}
	if why.last.Err != nil {
		detail += "; eviction failed: " + why.last.Err.Error()
	}
	return errs.WithHint(errs.New(errs.NoAvailableHandle, opPutStart, "%s", detail), "%s", hint)
}
