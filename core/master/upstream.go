package master

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// wantedFor is how long an object that was to be brought back is not ordered again.
	wantedFor = 30 * time.Second
	// maxWanted bounds the objects that were ordered within that time.
	maxWanted = 4096
)

// wanted are objects on storage tiers that clients of upstream asked for a moment ago.
type wanted struct {
	mu    sync.Mutex
	until map[string]lease.Instant
}

// add notes an object. It reports whether the object is to be ordered: it was not ordered a moment ago.
func (w *wanted) add(name string, now lease.Instant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil {
		w.until = map[string]lease.Instant{}
	}
	if w.until[name] > now {
		return false
	}
	if len(w.until) >= maxWanted {
		for n, until := range w.until {
			if until <= now {
				delete(w.until, n)
			}
		}
	}
	if len(w.until) >= maxWanted {
		return false
	}
	w.until[name] = now.Add(wantedFor)
	return true
}

// bringBack orders a copy in memory of an object that a client of upstream asked for, if only storage tiers have it, which such a
// client cannot read: the client finds it there when it tries again. The node of a tier counts the reads of other clients by itself.
// Memory that is used above the watermark takes none.
func (s *Service) bringBack(ctx context.Context, c scope, key model.Key) {
	if s.cfg.Tiers == nil || s.cfg.Tiers.PromoteAt == 0 {
		return
	}
	v, ok := s.table.Look(c.name(key))
	if !ok || !v.Complete || v.Copying || slices.ContainsFunc(v.Replicas, func(r model.Replica) bool { return !r.OnTier() }) {
		return
	}
	for i := range v.Replicas {
		source := v.Replicas[i].Segment
		node, _ := model.SplitTier(source)
		takes := func(m *segments.Segment) bool { return m.Allocatable() && model.PlainProtocol(m.Protocol) && v.Size <= m.Size }
		if !slices.ContainsFunc(s.registry.View().Named(node), takes) {
			continue
		}
		const op = "master: bring an object back from a storage tier"
		if s.mayPromote(op) != nil || !s.wanted.add(c.name(key), s.clock.Now()) {
			return
		}
		spec := model.TaskSpec{Kind: model.CopyObject, Key: key, Source: source, Targets: []string{node}}
		if _, err := s.createTask(ctx, model.Caller{Tenant: c.tenant}, spec); err != nil {
			s.log.Debug("an object could not be ordered from a storage tier", "key", key, "error", err)
		}
		return
	}
}
