package storeservice_test

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// pool is Objects and Segments in memory.
type pool struct {
	mu       sync.Mutex
	objects  map[string][]byte
	leased   map[string]bool
	broken   error // what every call answers
	segments []model.Segment
	frees    map[model.SegmentID]func()
	log      []string // mounts and unmounts, in order
	refuse   map[model.SegmentID]bool
	full     bool // no mount
	next     uint64
	graces   []time.Duration
	// tierGraces are the graces of UnmountTiers, tierLimits how long it might take.
	tierGraces, tierLimits []time.Duration
}

func newPool() *pool {
	return &pool{objects: map[string][]byte{}, leased: map[string]bool{}, frees: map[model.SegmentID]func(){}, refuse: map[model.SegmentID]bool{}}
}

func missing(op string) error { return errs.New(errs.ObjectNotFound, op, "there is no such object") }

func (p *pool) Put(_ context.Context, key string, value []byte, cfg model.ReplicateConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil || len(value) == 0 || cfg.ReplicaNum != 1 {
		return p.broken
	}
	if _, ok := p.objects[key]; !ok {
		p.objects[key] = value
	}
	return nil
}

func (p *pool) Get(_ context.Context, key string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if value, ok := p.objects[key]; ok || p.broken != nil {
		return value, p.broken
	}
	return nil, missing("get")
}

func (p *pool) Size(ctx context.Context, key string) (uint64, error) {
	value, err := p.Get(ctx, key)
	return uint64(len(value)), err
}

func (p *pool) Exist(_ context.Context, key string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.objects[key]
	return ok, p.broken
}

func (p *pool) Remove(_ context.Context, key string, force bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch _, ok := p.objects[key]; {
	case p.broken != nil:
		return p.broken
	case !ok:
		return missing("remove")
	case p.leased[key] && !force:
		return errs.New(errs.ObjectHasLease, "remove", "a reader holds a lease on it")
	}
	delete(p.objects, key)
	return nil
}

func (p *pool) RemoveAll(ctx context.Context, force bool) (int, error) {
	n := 0
	for key := range p.objects {
		if p.Remove(ctx, key, force) == nil {
			n++
		}
	}
	return n, p.broken
}

func (p *pool) MountSegment(_ context.Context, o node.MountOptions) ([]model.SegmentID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		if o.Freed != nil {
			o.Freed()
		}
		return nil, errs.New(errs.InvalidParams, "mount", "there is no more memory")
	}
	p.next++
	id := model.SegmentID{Hi: 7, Lo: p.next}
	size := o.Size
	if o.Memory.Bytes != nil {
		size = uint64(len(o.Memory.Bytes))
		o.Memory.Bytes[0], o.Memory.Bytes[size-1] = 1, 2 // all of it can be written
	}
	p.segments = append(p.segments, model.Segment{ID: id, Size: size, Protocol: o.Protocol})
	p.frees[id] = o.Freed
	p.log = append(p.log, "mount "+id.String())
	return []model.SegmentID{id}, nil
}

func (p *pool) UnmountSegments(_ context.Context, ids []model.SegmentID, grace time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.graces = append(p.graces, grace)
	for _, id := range ids {
		free, ok := p.frees[id]
		if !ok || p.refuse[id] {
			return errs.New(errs.SegmentNotFound, "unmount", "this node has no segment %v", id)
		}
		if free != nil {
			free()
		}
		delete(p.frees, id)
		p.log = append(p.log, "unmount "+id.String())
		for i, s := range p.segments {
			if s.ID == id {
				p.segments = append(p.segments[:i:i], p.segments[i+1:]...)
				break
			}
		}
	}
	return nil
}

func (p *pool) UnmountTiers(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tierGraces = append(p.tierGraces, grace)
	limit, _ := ctx.Deadline()
	p.tierLimits = append(p.tierLimits, time.Until(limit))
	return p.broken
}

func (p *pool) Segments() []model.Segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]model.Segment(nil), p.segments...)
}
