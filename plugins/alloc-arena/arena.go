package arena

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/alloc"
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

// lock returns a space with its lock held, nil when it is unknown. Who holds a space that
// is removed meanwhile was first.
func (a *allocator) lock(id alloc.SpaceID) *space {
	s := (*a.spaces.Load())[id]
	if s != nil {
		s.mu.Lock()
	}
	return s
}

// Alloc implements alloc.Allocator.
func (a *allocator) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	results := make([]alloc.Result, len(requests))
	for i := range requests {
		results[i].Extent, results[i].Err = a.allocOne(&requests[i])
	}
	return results, nil
}

func (a *allocator) allocOne(r *alloc.Request) (alloc.Extent, error) {
	align := max(1, r.Align)
	if r.Size == 0 || align&(align-1) != 0 || len(r.Candidates) == 0 {
		return alloc.Extent{}, errRequest(r)
	}
	known := false
	for _, id := range r.Candidates {
		s := a.lock(id)
		if s == nil {
			continue
		}
		known = true
		off, ok := s.alloc(r.Size, align)
		s.mu.Unlock()
		if ok {
			return alloc.Extent{Space: id, Offset: off, Size: r.Size}, nil
		}
	}
	if !known {
		return alloc.Extent{}, errUnknownSpace(r.Candidates[0])
	}
	return alloc.Extent{}, errFull(r)
}

// Free implements alloc.Allocator.
func (a *allocator) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return each(extents, a.freeOne), nil
}

func (a *allocator) freeOne(e alloc.Extent) error {
	s := a.lock(e.Space)
	if s == nil {
		return errUnknownSpace(e.Space)
	}
	defer s.mu.Unlock()
	if !s.free(e.Offset, e.Size) {
		return errNotLive(e)
	}
	return nil
}

// Reserve implements alloc.Allocator. It works at any time, and takes time linear in the
// number of extents of the space when something was allocated since the last call.
func (a *allocator) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return each(extents, a.reserveOne), nil
}

func (a *allocator) reserveOne(e alloc.Extent) error {
	s := a.lock(e.Space)
	if s == nil {
		return errUnknownSpace(e.Space)
	}
	defer s.mu.Unlock()
	return errReserve(s.take(e.Offset, e.Size), e, s)
}

// Stats implements alloc.Allocator.
func (a *allocator) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	s := a.lock(id)
	if s == nil {
		return alloc.Stats{}, errUnknownSpace(id)
	}
	defer s.mu.Unlock()
	return s.stats(), nil
}

// each applies do to every extent; nil when all went well, else one entry an extent.
func each(extents []alloc.Extent, do func(alloc.Extent) error) []error {
	var out []error
	for i, e := range extents {
		if err := do(e); err != nil {
			if out == nil {
				out = make([]error, len(extents))
			}
			out[i] = err
		}
	}
	return out
}
