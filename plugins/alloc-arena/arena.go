// Package arena is the allocator alloc/arena: it hands out byte ranges of spaces of up to many TiB
// without ever touching the memory behind them.
//
// A size class is one exact size, rounded up to the granule (64 bytes, 16 for small sizes). A class
// that is in use gets arenas: stretches that are set aside for it, grow with the number of its live
// extents, and are handed out front to back. A class that many extents are of takes from its arena
// whole runs: up to 64 slots that are one node and a bit each, and of which a free one waits for
// the next extent of the class. Else what is freed goes back to the free ranges at once and merges
// with its neighbours, as a run does when it is empty. A request is served, in this order, from
//
//	a free slot of a run of its class
//	a free range of exactly its size         reuse, leaves nothing over
//	the arena of its class                   keeps sizes apart
//	a free range of a small multiple         what neighbours of its class left
//	a new arena                              while the space has large free ranges
//	the smallest free range that fits        the space is nearly full: a few runs give up their free slots
//	the same, after all arenas were given up nothing stays stranded in them
//	the free slots of a run or two           with the free range beside them
//
// so a request fails only if no free range is large enough. Pages of one size fill a space to the
// last slot.
//
// Each space has its own lock and its own flat arrays, kept at their largest until the space is
// removed: about 30 bytes for a live extent, 3 for one in a run. An operation in a run takes
// constant time, others logarithmic time in the number of distinct sizes of free ranges. One that
// no free range is large enough for looks at the runs in which, or beside which, something was
// freed since they were last looked at.
package arena

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// allocator implements alloc.Allocator. Spaces are found without a lock; each has its own.
type allocator struct {
	cfg    Config
	change sync.Mutex // held while spaces is replaced
	spaces atomic.Pointer[map[alloc.SpaceID]*space]
}

var _ alloc.Allocator = (*allocator)(nil)

func newAllocator(cfg Config) *allocator {
	a := &allocator{cfg: cfg}
	a.spaces.Store(&map[alloc.SpaceID]*space{})
	return a
}

// Start implements plugin.Component; there is nothing to acquire.
func (a *allocator) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component; the memory goes with the allocator.
func (a *allocator) Stop(context.Context) error { return nil }

// AddSpace implements alloc.Allocator.
func (a *allocator) AddSpace(_ context.Context, s alloc.Space) error {
	a.change.Lock()
	defer a.change.Unlock()
	old := *a.spaces.Load()
	switch {
	case s.Size == 0:
		return errEmptySpace(s.ID)
	case old[s.ID] != nil:
		return errKnownSpace(s.ID)
	}
	spaces := maps.Clone(old)
	spaces[s.ID] = newSpace(a.cfg, s, rand.Uint64())
	a.spaces.Store(&spaces)
	return nil
}

// RemoveSpace implements alloc.Allocator.
func (a *allocator) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	a.change.Lock()
	defer a.change.Unlock()
	old := *a.spaces.Load()
	if old[id] == nil {
		return errUnknownSpace(id)
	}
	spaces := maps.Clone(old)
	delete(spaces, id)
	a.spaces.Store(&spaces)
	return nil
}

// visit is the way of one batch through the spaces. It holds the lock of the space that it is at
// until it goes to another, so that a batch for one space takes one lock. A batch that holds a
// space which is removed meanwhile was first.
type visit struct {
	spaces map[alloc.SpaceID]*space
	id     alloc.SpaceID
	at     *space // nil at first
}

func (a *allocator) visit() visit { return visit{spaces: *a.spaces.Load()} }

// to returns a space with its lock held, nil when it is unknown.
func (v *visit) to(id alloc.SpaceID) *space {
	if v.at != nil && v.id == id {
		return v.at
	}
	s := v.spaces[id]
	if s != nil {
		v.leave()
		s.mu.Lock()
		v.at, v.id = s, id
	}
	return s
}

func (v *visit) leave() {
	if v.at != nil {
		v.at.mu.Unlock()
		v.at = nil
	}
}

// Alloc implements alloc.Allocator.
func (a *allocator) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	results := make([]alloc.Result, len(requests))
	v := a.visit()
	defer v.leave()
	for i := range requests {
		results[i].Err = v.alloc(&requests[i], &results[i].Extent)
	}
	return results, nil
}

func (v *visit) alloc(r *alloc.Request, extent *alloc.Extent) error {
	align := max(1, r.Align)
	if r.Size == 0 || align&(align-1) != 0 || len(r.Candidates) == 0 {
		return errRequest(r)
	}
	known := false
	for _, id := range r.Candidates {
		s := v.to(id)
		if s == nil {
			continue
		}
		known = true
		if off, ok := s.alloc(r.Size, align); ok {
			*extent = alloc.Extent{Space: id, Offset: off, Size: r.Size}
			return nil
		}
	}
	if !known {
		return errUnknownSpace(r.Candidates[0])
	}
	return errFull(r)
}

// Free implements alloc.Allocator.
func (a *allocator) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(s *space, e alloc.Extent) error {
		if !s.free(e.Offset, e.Size) {
			return errNotLive(e)
		}
		return nil
	}), nil
}

// Reserve implements alloc.Allocator. It works at any time, and takes time linear in the number of
// extents of the space when something was allocated since the last call.
func (a *allocator) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(s *space, e alloc.Extent) error {
		return errReserve(s.take(e.Offset, e.Size), e, s)
	}), nil
}

// each applies do to every extent with its space, which is locked; nil when all went well, else one
// entry an extent.
func (a *allocator) each(extents []alloc.Extent, do func(*space, alloc.Extent) error) []error {
	var out []error
	v := a.visit()
	defer v.leave()
	for i, e := range extents {
		err := error(nil)
		if s := v.to(e.Space); s != nil {
			err = do(s, e)
		} else {
			err = errUnknownSpace(e.Space)
		}
		if err == nil {
			continue
		}
		if out == nil {
			out = make([]error, len(extents))
		}
		out[i] = err
	}
	return out
}

// Stats implements alloc.Allocator.
func (a *allocator) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	v := a.visit()
	defer v.leave()
	s := v.to(id)
	if s == nil {
		return alloc.Stats{}, errUnknownSpace(id)
	}
	return s.stats(), nil
}

func errEmptySpace(id alloc.SpaceID) error {
	return errs.New(errs.InvalidParams, "alloc/arena: add space", "space %d has size 0, it needs at least 1 byte", id)
}

func errKnownSpace(id alloc.SpaceID) error {
	return errs.New(errs.InvalidParams, "alloc/arena: add space", "space %d exists already; remove it first or use another number", id)
}

func errUnknownSpace(id alloc.SpaceID) error {
	return errs.New(errs.SegmentNotFound, "alloc/arena", "space %d is unknown; it was removed or never added", id)
}

func errRequest(r *alloc.Request) error {
	const op = "alloc/arena: allocate"
	switch {
	case r.Size == 0:
		return errs.New(errs.InvalidParams, op, "the size is 0, it must be at least 1")
	case len(r.Candidates) == 0:
		return errs.New(errs.InvalidParams, op, "%d bytes without a candidate space; name at least one", r.Size)
	}
	return errs.New(errs.InvalidParams, op, "the alignment is %d, it must be 0 or a power of two", r.Align)
}

// noSpace is the cause of a refusal. It formats its text only when it is printed: a full pool
// refuses often, and the master answers with an eviction rather than a message.
type noSpace struct {
	size, align uint64
	candidates  int
}

func (e *noSpace) Error() string {
	return fmt.Sprintf("no free range of %d bytes (alignment %d) in %d candidate spaces; evict something or add memory",
		e.size, e.align, e.candidates)
}

func errFull(r *alloc.Request) error {
	return &errs.Error{Code: errs.NoAvailableHandle, Op: "alloc/arena: allocate", Err: &noSpace{r.Size, r.Align, len(r.Candidates)}}
}

func errNotLive(e alloc.Extent) error {
	return errs.New(errs.InvalidWrite, "alloc/arena: free",
		"[%d, +%d) of space %d is not an extent in use; it was freed before or never given out", e.Offset, e.Size, e.Space)
}

func errReserve(v verdict, e alloc.Extent, s *space) error {
	const op = "alloc/arena: reserve"
	switch v {
	case reserved:
		return nil
	case overlaps:
		return errs.New(errs.InvalidWrite, op, "[%d, +%d) of space %d overlaps an extent in use", e.Offset, e.Size, e.Space)
	case outside:
		return errs.New(errs.InvalidWrite, op, "[%d, +%d) leaves space %d, which has %d bytes", e.Offset, e.Size, e.Space, s.size)
	}
	return errs.New(errs.NoAvailableHandle, op,
		"[%d, +%d) of space %d was never given out by this allocator with granules of %d bytes; check granule_bytes",
		e.Offset, e.Size, e.Space, s.granules.fine)
}

// Factory returns the factory of alloc/arena.
func Factory() alloc.Factory {
	return alloc.Define(manifest(), DefaultConfig,
		func(c *Config) (alloc.Allocator, error) {
			if err := plugin.Validate(c); err != nil {
				return nil, err
			}
			return newAllocator(*c), nil
		})
}
