package master_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// watchedAlloc is one incarnation of the real allocator. It remembers what is allocated and
// keeps the first fault: an overlap, or a free of what is not allocated.
type watchedAlloc struct {
	alloc.Allocator
	mu    sync.Mutex
	sizes map[alloc.SpaceID]uint64
	live  map[alloc.Extent]bool
	fault string
}

func newWatchedAlloc() *watchedAlloc {
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	if err != nil {
		panic(err)
	}
	return &watchedAlloc{Allocator: a, sizes: map[alloc.SpaceID]uint64{}, live: map[alloc.Extent]bool{}}
}

func (w *watchedAlloc) blame(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (w *watchedAlloc) take(x alloc.Extent) {
	if x.Offset+x.Size > w.sizes[x.Space] {
		w.blame("%+v lies outside of its space of %d", x, w.sizes[x.Space])
	}
	for o := range w.live {
		if o.Space == x.Space && x.Offset < o.Offset+o.Size && o.Offset < x.Offset+x.Size {
			w.blame("%+v overlaps %+v", x, o)
		}
	}
	w.live[x] = true
}

func (w *watchedAlloc) AddSpace(ctx context.Context, s alloc.Space) error {
	err := w.Allocator.AddSpace(ctx, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.sizes[s.ID] = s.Size
	}
	return err
}

func (w *watchedAlloc) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	err := w.Allocator.RemoveSpace(ctx, id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sizes, id)
	for x := range w.live {
		if x.Space == id {
			delete(w.live, x)
		}
	}
	return err
}

func (w *watchedAlloc) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	got, err := w.Allocator.Alloc(ctx, requests)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range got {
		if r.Err == nil {
			w.take(r.Extent)
		}
	}
	return got, err
}

func (w *watchedAlloc) Reserve(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	each, err := w.Allocator.Reserve(ctx, extents)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && each == nil {
		for _, x := range extents {
			w.take(x)
		}
	}
	return each, err
}

func (w *watchedAlloc) Free(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	w.mu.Lock()
	for _, x := range extents {
		if !w.live[x] && w.sizes[x.Space] > 0 {
			w.blame("%+v is freed and not allocated", x)
		}
		delete(w.live, x)
	}
	w.mu.Unlock()
	return w.Allocator.Free(ctx, extents)
}

// watchedPolicy is one incarnation of the real policy. It remembers what it was told.
type watchedPolicy struct {
	evict.Policy
	mu    sync.Mutex
	known map[evict.ID]bool
}

func newWatchedPolicy() *watchedPolicy {
	p, err := lru.Factory().New(lru.Factory().DefaultConfig())
	if err != nil {
		panic(err)
	}
	return &watchedPolicy{Policy: p, known: map[evict.ID]bool{}}
}

func (w *watchedPolicy) Record(ctx context.Context, events []evict.Event) error {
	w.mu.Lock()
	for _, e := range events {
		switch e.Op {
		case evict.Insert:
			w.known[e.ID] = true
		case evict.Remove:
			delete(w.known, e.ID)
		}
	}
	w.mu.Unlock()
	return w.Policy.Record(ctx, events)
}

func (w *watchedPolicy) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	w.mu.Lock()
	for _, v := range verdicts {
		if v.Evicted {
			delete(w.known, v.ID)
		}
	}
	w.mu.Unlock()
	return w.Policy.Resolve(ctx, verdicts)
}

// slot holds the incarnation that is in use, as a supervisor does: while it is down every
// call fails.
type slot[P any] struct {
	mu   sync.Mutex
	it   P
	down bool
}

func (s *slot[P]) get() (P, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return s.it, mastertest.ErrDown
	}
	return s.it, nil
}

func (s *slot[P]) set(it P, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.it, s.down = it, down
}

type allocSlot struct {
	alloc.Allocator // for Start and Stop
	slot[*watchedAlloc]
}

func (s *allocSlot) AddSpace(ctx context.Context, x alloc.Space) error {
	a, err := s.get()
	if err != nil {
		return err
	}
	return a.AddSpace(ctx, x)
}

func (s *allocSlot) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	a, err := s.get()
	if err != nil {
		return err
	}
	return a.RemoveSpace(ctx, id)
}

func (s *allocSlot) Alloc(ctx context.Context, r []alloc.Request) ([]alloc.Result, error) {
	a, err := s.get()
	if err != nil {
		return nil, err
	}
	return a.Alloc(ctx, r)
}

func (s *allocSlot) Reserve(ctx context.Context, x []alloc.Extent) ([]error, error) {
	a, err := s.get()
	if err != nil {
		return nil, err
	}
	return a.Reserve(ctx, x)
}

func (s *allocSlot) Free(ctx context.Context, x []alloc.Extent) ([]error, error) {
	a, err := s.get()
	if err != nil {
		return nil, err
	}
	return a.Free(ctx, x)
}

func (s *allocSlot) Stats(ctx context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	a, err := s.get()
	if err != nil {
		return alloc.Stats{}, err
	}
	return a.Stats(ctx, id)
}

type policySlot struct {
	evict.Policy // for Start and Stop
	slot[*watchedPolicy]
}

func (s *policySlot) Record(ctx context.Context, e []evict.Event) error {
	p, err := s.get()
	if err != nil {
		return err
	}
	return p.Record(ctx, e)
}

func (s *policySlot) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p, err := s.get()
	if err != nil {
		return dst, err
	}
	return p.Propose(ctx, dst, bytes)
}

func (s *policySlot) Resolve(ctx context.Context, v []evict.Verdict) error {
	p, err := s.get()
	if err != nil {
		return err
	}
	return p.Resolve(ctx, v)
}

func (s *policySlot) Stats(ctx context.Context) (evict.Stats, error) {
	p, err := s.get()
	if err != nil {
		return evict.Stats{}, err
	}
	return p.Stats(ctx)
}
