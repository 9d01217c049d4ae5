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

// visit is the way of one batch through the spaces. It holds the lock of the space that it is
// at until it goes to another, so that a batch for one space takes one lock. Who holds a
// space that is removed meanwhile was first.
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

// Reserve implements alloc.Allocator. It works at any time, and takes time linear in the
// number of extents of the space when something was allocated since the last call.
func (a *allocator) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(s *space, e alloc.Extent) error {
		return errReserve(s.take(e.Offset, e.Size), e, s)
	}), nil
}

// each applies do to every extent with its space, which is locked; nil when all went well,
// else one entry an extent.
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
