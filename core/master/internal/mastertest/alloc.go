// Package mastertest holds small plugins for the master's tests: simple on purpose, exact,
// countable, and able to fail and to forget everything as a killed subprocess does.
package mastertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ErrDown is what a plugin that was made to fail answers.
var ErrDown = errs.New(errs.RPCFail, "test plugin", "its process is gone")

// Alloc is a first-fit allocator that checks every rule of the contract.
type Alloc struct {
	AllocCalls, FreeCalls atomic.Int64
	Down                  atomic.Bool

	mu     sync.Mutex
	spaces map[alloc.SpaceID]*space
}

type space struct {
	size uint64
	live []alloc.Extent // by offset
}

// NewAlloc returns an allocator without spaces.
func NewAlloc() *Alloc { return &Alloc{spaces: map[alloc.SpaceID]*space{}} }

// Start implements plugin.Component.
func (a *Alloc) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component.
func (a *Alloc) Stop(context.Context) error { return nil }

// Restart forgets everything.
func (a *Alloc) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spaces = map[alloc.SpaceID]*space{}
}

// AddSpace implements alloc.Allocator.
func (a *Alloc) AddSpace(_ context.Context, s alloc.Space) error {
	if a.Down.Load() {
		return ErrDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spaces[s.ID] != nil || s.Size == 0 {
		return errs.New(errs.InvalidParams, "test allocator: add space", "size 0 or known")
	}
	a.spaces[s.ID] = &space{size: s.Size}
	return nil
}

// RemoveSpace implements alloc.Allocator.
func (a *Alloc) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	if a.Down.Load() {
		return ErrDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spaces[id] == nil {
		return errs.New(errs.SegmentNotFound, "test allocator: remove space", "unknown")
	}
	delete(a.spaces, id)
	return nil
}

// Alloc implements alloc.Allocator.
func (a *Alloc) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	a.AllocCalls.Add(1)
	if a.Down.Load() {
		return nil, ErrDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		out[i].Err = errs.NoAvailableHandle.Err()
		for _, id := range r.Candidates {
			if x, ok := a.fit(id, r.Size); ok {
				out[i] = alloc.Result{Extent: x}
				break
			}
		}
	}
	return out, nil
}

func (a *Alloc) fit(id alloc.SpaceID, size uint64) (alloc.Extent, bool) {
	s := a.spaces[id]
	if s == nil {
		return alloc.Extent{}, false
	}
	at := uint64(0)
	for i := 0; ; i++ {
		end := s.size
		if i < len(s.live) {
			end = s.live[i].Offset
		}
		if end-at >= size {
			x := alloc.Extent{Space: id, Offset: at, Size: size}
			s.live = slices.Insert(s.live, i, x)
			return x, true
		}
		if i == len(s.live) {
			return alloc.Extent{}, false
		}
		at = end + s.live[i].Size
	}
}

// Free implements alloc.Allocator.
func (a *Alloc) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	a.FreeCalls.Add(1)
	return a.each(extents, func(s *space, x alloc.Extent) error {
		i := slices.Index(s.live, x)
		if i < 0 {
			return errs.New(errs.InvalidWrite, "test allocator: free", "%+v is not allocated", x)
		}
		s.live = slices.Delete(s.live, i, i+1)
		return nil
	})
}

// Reserve implements alloc.Allocator.
func (a *Alloc) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(s *space, x alloc.Extent) error {
		i, _ := slices.BinarySearchFunc(s.live, x, func(a, b alloc.Extent) int { return int(a.Offset) - int(b.Offset) })
		if x.Offset+x.Size > s.size || (i > 0 && s.live[i-1].Offset+s.live[i-1].Size > x.Offset) ||
			(i < len(s.live) && x.Offset+x.Size > s.live[i].Offset) {
			return errs.New(errs.InvalidWrite, "test allocator: reserve", "%+v overlaps", x)
		}
		s.live = slices.Insert(s.live, i, x)
		return nil
	})
}

func (a *Alloc) each(extents []alloc.Extent, do func(*space, alloc.Extent) error) ([]error, error) {
	if a.Down.Load() {
		return nil, ErrDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []error
	for i, x := range extents {
		err := error(errs.New(errs.SegmentNotFound, "test allocator", "unknown space %d", x.Space))
		if s := a.spaces[x.Space]; s != nil {
			err = do(s, x)
		}
		if err != nil {
			if out == nil {
				out = make([]error, len(extents))
			}
			out[i] = err
		}
	}
	return out, nil
}

// Stats implements alloc.Allocator.
func (a *Alloc) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	if a.Down.Load() {
		return alloc.Stats{}, ErrDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.spaces[id]
	if s == nil {
		return alloc.Stats{}, errs.SegmentNotFound.Err()
	}
	st := alloc.Stats{Size: s.size, Extents: uint64(len(s.live)), LargestFree: s.size}
	for _, x := range s.live {
		st.Requested += x.Size
	}
	st.Reserved = st.Requested
	return st, nil
}

// Live returns all live extents.
func (a *Alloc) Live() []alloc.Extent {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []alloc.Extent
	for _, s := range a.spaces {
		out = append(out, s.live...)
	}
	return out
}
