// Package space manages the allocator for the master. It accounts for the memory of objects, frees
// extents, quarantines those whose writer or reader may not be done yet, and resyncs a restarted
// allocator.
//
// The allocator may be a subprocess. Every call therefore carries a batch, has a time limit, and
// holds no lock but the gate.
//
// The gate: a goroutine that allocates and enters the result into the object table, or takes
// objects out of the table and frees them, does both between Enter and Leave. Replay and Mount
// wait until no goroutine is inside. Then the table, the quarantine and the segments together say
// exactly what is allocated. Do not wait for anything but the allocator while inside.
package space

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// CallTimeout bounds one call of the allocator.
const CallTimeout = 5 * time.Second

// maxOwed bounds the extents that wait for an allocator that is down. Extents beyond it are lost
// until the allocator restarts and is resynced.
const maxOwed = 1 << 20

// Pool is the memory of the pool. It is safe for concurrent use.
type Pool struct {
	alloc alloc.Allocator
	log   *slog.Logger
	gate  sync.RWMutex

	mu         sync.Mutex
	owed       []alloc.Extent  // to be freed once the allocator answers
	owedSpaces []alloc.SpaceID // to be removed once it answers
	held       quarantine
	lost       uint64
	heldBytes  uint64 // in quarantine
	staging    uint64 // the part of heldBytes that stems from discarded puts
}

// New returns a pool over an allocator.
func New(a alloc.Allocator, log *slog.Logger) *Pool { return &Pool{alloc: a, log: log} }

// Enter begins a change of the allocations; see the package comment.
func (p *Pool) Enter() { p.gate.RLock() }

// Leave ends a change that Enter began.
func (p *Pool) Leave() { p.gate.RUnlock() }

// Alloc calls the allocator and accounts for the extents that it returns. Call it inside the gate.
// An error concerns the whole call, which has then allocated nothing.
func (p *Pool) Alloc(ctx context.Context, v *segments.View, requests []alloc.Request) ([]alloc.Result, error) {
	// A caller that hangs up halfway would leave extents without an owner.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	results, err := p.alloc.Alloc(ctx, requests)
	if err == nil && len(results) != len(requests) {
		err = errs.New(errs.Internal, "allocator", "it answered %d of %d requests", len(results), len(requests))
	}
	if err != nil {
		return nil, err
	}
	for i := range results {
		if results[i].Err != nil {
			continue
		}
		s := v.Space(results[i].Extent.Space)
		if s == nil {
			results[i].Err = errs.New(errs.Internal, "allocator", "it answered with space %d, which was not asked for", results[i].Extent.Space)
			continue
		}
		s.Take(requests[i].Size)
	}
	return results, nil
}

// Free frees extents. Call it inside the gate, after they have left the table. It never fails: Tick
// retries the extents that the allocator did not free, unless it may have freed them already. An extent
// that a ledger has is free when the ledger has acknowledged that it is, see Freed.
func (p *Pool) Free(ctx context.Context, extents []segments.Extent) {
	batch := make([]alloc.Extent, 0, len(extents))
	for _, e := range extents {
		switch {
		case e.Put != 0 && e.Seg.Ledger != nil && e.Seg.Alive():
			e.Seg.FreeLater(e.Size)
			e.Seg.Ledger.Free(e.Put, e.Alloc())
			continue
		case e.Seg.Alive():
			batch = append(batch, e.Alloc())
		}
		e.Seg.Give(e.Size)
	}
	p.free(ctx, batch)
}

// Freed frees extents that Free has left to the ledger of a segment, which has acknowledged that nothing lies there. Call it
// inside the gate.
func (p *Pool) Freed(ctx context.Context, s *segments.Segment, extents []alloc.Extent) {
	for _, e := range extents {
		s.Freed(e.Size)
	}
	if s.Alive() {
		p.free(ctx, extents)
	}
}

func (p *Pool) free(ctx context.Context, batch []alloc.Extent) {
	if len(batch) == 0 {
		return
	}
	// A caller that hangs up must not cost the pool its memory.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	each, err := p.alloc.Free(ctx, batch)
	if err != nil {
		p.owe(batch, err)
		return
	}
	for i, e := range each {
		if e != nil && !errs.Is(e, errs.SegmentNotFound) {
			p.log.Error("the allocator refused to take an extent back; its accounting and the master's differ",
				"space", batch[i].Space, "offset", batch[i].Offset, "size", batch[i].Size, "error", e)
		}
	}
}

// owe keeps the extents that an unavailable allocator did not free. The outcome of a call without
// an answer is indeterminate: another object may own the memory by now, and a retry would free
// that. So such extents count as lost until the supervisor resyncs the allocator, which it does if
// the allocator still does not answer.
func (p *Pool) owe(batch []alloc.Extent, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !errs.Is(cause, errs.RPCFail) && !errs.Is(cause, errs.UnavailableInCurrentStatus) {
		p.lost += uint64(len(batch))
		p.log.Error("the allocator did not say whether it took freed extents back; until it restarts they may be out of use",
			"extents", len(batch), "lost", p.lost, "error", cause)
		return
	}
	fit := min(max(maxOwed-len(p.owed), 0), len(batch))
	p.owed = append(p.owed, batch[:fit]...)
	p.lost += uint64(len(batch) - fit)
	p.log.Warn("the allocator is down; freed extents wait for it", "waiting", len(p.owed), "lost", p.lost, "error", cause)
}

// AddSpace makes a segment known to the allocator that is not published yet. Call it inside the gate.
func (p *Pool) AddSpace(ctx context.Context, s *segments.Segment) error { return p.addSpace(ctx, s) }

// Reserve takes extents that the ledger of a segment names out of the free memory, and returns an error for each that
// the allocator cannot take. Call it inside the gate.
func (p *Pool) Reserve(ctx context.Context, s *segments.Segment, extents []alloc.Extent) ([]error, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	answer, err := p.alloc.Reserve(ctx, extents)
	if err != nil {
		return nil, fmt.Errorf("reserve %d extents that the ledger of %s names: %w", len(extents), s.Name, err)
	}
	each := make([]error, len(extents))
	copy(each, answer) // It has none for the last ones if they succeeded.
	for i := range extents {
		if each[i] == nil {
			s.Take(extents[i].Size)
		}
	}
	return each, nil
}

// RemoveSpace removes a dead segment from the allocator. Call it inside the gate. Like Free, it
// never fails.
func (p *Pool) RemoveSpace(ctx context.Context, id alloc.SpaceID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	err := p.alloc.RemoveSpace(ctx, id)
	if err == nil || errs.Is(err, errs.SegmentNotFound) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.owedSpaces) < segments.MaxSegments {
		p.owedSpaces = append(p.owedSpaces, id)
	}
	p.log.Warn("the allocator does not answer; a removed segment waits for it", "space", id, "error", err)
}

// Stats describes one space as the allocator sees it.
func (p *Pool) Stats(ctx context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return p.alloc.Stats(ctx, id)
}

// Tick does periodic work: it retries frees that failed, and frees extents that have been in
// quarantine long enough. It returns the number of freed extents of discarded puts.
func (p *Pool) Tick(ctx context.Context, now lease.Instant) (released int) {
	p.mu.Lock()
	idle := len(p.owed) == 0 && len(p.owedSpaces) == 0 && !p.held.due(now)
	p.mu.Unlock()
	if idle {
		return 0
	}
	p.Enter()
	defer p.Leave()
	p.mu.Lock()
	owed, spaces := p.owed, p.owedSpaces
	p.owed, p.owedSpaces = nil, nil
	due, released := p.release(now)
	p.mu.Unlock()
	for _, id := range spaces {
		p.RemoveSpace(ctx, id)
	}
	p.free(ctx, owed)
	p.Free(ctx, due)
	return released
}
