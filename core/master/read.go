package master

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/grants"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Exist reports which keys are readable and protects those for a while. The order of the
// keys tells which page comes before which.
func (s *Service) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	const op = "master: exist"
	c, err := s.admitted(ctx, op, caller, len(keys))
	if err != nil {
		return nil, err
	}
	ttl := s.cfg.ProbeTTL
	if ttl == 0 {
		ttl = s.cfg.LeaseTTL
	}
	g := objects.Grant{Rank: s.cfg.ExistRanks, At: s.feeds.Now(), Plain: caller.Upstream}
	if ttl > 0 {
		g.Probe = s.clock.Now().Add(ttl)
	}
	out, failed := make([]model.Result[bool], len(keys)), 0
	for i, k := range keys {
		if out[i].Err = soughtKey(op, k); out[i].Err != nil {
			g.Parent = 0
			failed++
			continue
		}
		name := c.name(k)
		var at objects.Handle
		if s.landing.Has(name) {
			g.Parent = 0
			continue
		}
		if at, out[i].Value = s.table.Exist(name, g); !out[i].Value && g.Parent != 0 {
			s.lineage.Note(s.table.Print(name), g.Parent)
		}
		if !out[i].Value && caller.Upstream {
			s.bringBack(ctx, c, k)
		}
		g.Parent = at
	}
	s.counters.Exist.Done(len(keys), failed)
	s.feed(ctx)
	return out, nil
}

// GetReplicas says where objects lie and grants a read lease.
func (s *Service) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	const op = "master: get replicas"
	c, err := s.admitted(ctx, op, caller, len(keys))
	if err != nil {
		return nil, err
	}
	out := s.readCounted(ctx, op, caller, c, keys, into != nil && into.WithGrains)
	for i := range out {
		if caller.Upstream && errs.Is(out[i].Err, errs.ReplicaIsNotReady) {
			s.bringBack(ctx, c, keys[i])
		}
	}
	s.feed(ctx)
	return out, nil
}

// GetReplicasByRegex is GetReplicas for the keys that ListKeys returns.
func (s *Service) GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	const op = "master: get replicas by regex"
	keys, err := s.list(ctx, op, caller, expr, after, limit)
	s.counters.GetByRegex.Done(err != nil)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.scoped(op, caller)
	if err != nil {
		return nil, nil, err
	}
	out := s.readCounted(ctx, op, caller, c, keys, false)
	s.feed(ctx)
	return keys, out, nil
}

func (s *Service) readCounted(ctx context.Context, op string, caller model.Caller, c scope, keys []model.Key, grains bool) []model.Result[model.Object] {
	g := objects.Grant{Grains: grains, Lease: s.clock.Now().Add(s.cfg.LeaseTTL), Reader: s.reader(caller.Client), Rank: true, At: s.feeds.Now(), Plain: caller.Upstream}
	out, n := s.read(op, c, keys, g)
	grants.For(ctx, s.registry).Objects(out, s.readUntil(g.Lease))
	s.counters.Get.Done(len(keys), len(keys)-n.mem-n.tier)
	s.counters.Gets.Add(len(keys))
	s.counters.ValidGets.Add(n.mem + n.tier)
	s.counters.MemHits.Add(n.mem)
	s.counters.MemHitBytes.AddBytes(n.memBytes)
	s.counters.TierHits.Add(n.tier)
	s.counters.TierHitBytes.AddBytes(n.tierBytes)
	return out
}

// readUntil is until when a read with a lease may begin.
func (s *Service) readUntil(end lease.Instant) lease.Instant {
	if s.cfg.LeaseTTL <= 0 {
		return s.clock.Now().Add(model.ReadWithoutLease)
	}
	return end
}

// reader names the client that reads. A client that the master does not know is not remembered,
// because a caller may name any ID.
func (s *Service) reader(id model.ClientID) objects.Client {
	if _, known := s.clients.Seen(id); known {
		return s.table.Remember(id)
	}
	return s.table.Known(id)
}

// PeekReplicas answers like GetReplicas without a lease and without counting as a read.
func (s *Service) PeekReplicas(keys []model.Key) []model.Result[model.Object] {
	out, _ := s.read("master: peek replicas", s.defaultScope(), keys, objects.Grant{})
	return out
}

func (s *Service) defaultScope() scope {
	return scope{tenant: model.DefaultTenant, on: s.tenants != nil}
}

// hits are reads that were answered with a copy in memory, and those with copies on storage tiers only.
type hits struct {
	mem, tier           int
	memBytes, tierBytes uint64
}

func (h *hits) add(o *model.Object) {
	if slices.ContainsFunc(o.Replicas, func(r model.Replica) bool { return !r.OnTier() }) {
		h.mem++
		h.memBytes += o.Size
	} else {
		h.tier++
		h.tierBytes += o.Size
	}
}

func (s *Service) read(op string, c scope, keys []model.Key, g objects.Grant) (out []model.Result[model.Object], found hits) {
	out = make([]model.Result[model.Object], len(keys))
	// One backing array for the common case of one copy a key.
	buf := make([]model.Replica, 0, len(keys))
	for i, k := range keys {
		if out[i].Err = soughtKey(op, k); out[i].Err != nil {
			g.Parent = 0
			continue
		}
		var (
			name = c.name(k)
			got  objects.Outcome
			at   evict.ID
		)
		if s.landing.Has(name) {
			got = objects.Unfinished
		} else {
			out[i].Value, buf, at, got = s.table.Read(name, g, buf)
		}
		if got == objects.Missing && g.Parent != 0 && g.Rank {
			s.lineage.Note(s.table.Print(name), g.Parent)
		}
		g.Parent = at
		if got != objects.Done {
			out[i].Err = outcomeError(got, op, k)
			continue
		}
		if g.Lease != 0 {
			out[i].Value.LeaseTTL = s.cfg.LeaseTTL
		}
		found.add(&out[i].Value)
	}
	return out, found
}
