package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
)

// Exist reports which keys are readable and grants those a read lease.
func (s *Service) Exist(ctx context.Context, _ model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	const op = "master: exist"
	if err := s.admit(ctx, op, len(keys)); err != nil {
		return nil, err
	}
	g := objects.Grant{Until: s.clock.Now().Add(s.cfg.LeaseTTL), Rank: s.cfg.ExistRanks}
	out, failed := make([]model.Result[bool], len(keys)), 0
	for i, k := range keys {
		if out[i].Err = validKey(op, k); out[i].Err != nil {
			failed++
			continue
		}
		out[i].Value = s.table.Exist(k, g)
	}
	s.counters.Exist.Done(len(keys), failed)
	s.feed(ctx)
	return out, nil
}

// GetReplicas says where objects lie and grants a read lease.
func (s *Service) GetReplicas(ctx context.Context, _ model.Caller, keys []model.Key) ([]model.Result[model.Object], error) {
	const op = "master: get replicas"
	if err := s.admit(ctx, op, len(keys)); err != nil {
		return nil, err
	}
	g := objects.Grant{Until: s.clock.Now().Add(s.cfg.LeaseTTL), Rank: true}
	out, bytes := s.read(op, keys, g)
	failed := 0
	for i := range out {
		if out[i].Err != nil {
			failed++
		}
	}
	hits := len(keys) - failed
	s.counters.Get.Done(len(keys), failed)
	s.counters.Gets.Add(len(keys))
	s.counters.ValidGets.Add(hits)
	s.counters.MemHits.Add(hits)
	s.counters.MemHitBytes.AddBytes(bytes)
	s.feed(ctx)
	return out, nil
}

// PeekReplicas answers like GetReplicas without a lease and without counting as a read.
func (s *Service) PeekReplicas(keys []model.Key) []model.Result[model.Object] {
	out, _ := s.read("master: peek replicas", keys, objects.Grant{})
	return out
}

func (s *Service) read(op string, keys []model.Key, g objects.Grant) (out []model.Result[model.Object], bytes uint64) {
	out = make([]model.Result[model.Object], len(keys))
	// One backing array for the common case of one copy a key.
	buf := make([]model.Replica, 0, len(keys))
	for i, k := range keys {
		if out[i].Err = validKey(op, k); out[i].Err != nil {
			continue
		}
		var got objects.Outcome
		out[i].Value, buf, got = s.table.Read(k, g, buf)
		if got != objects.Done {
			out[i].Err = outcomeError(got, op, k)
			continue
		}
		if g.Until != 0 {
			out[i].Value.LeaseTTL = s.cfg.LeaseTTL
		}
		bytes += out[i].Value.Size
	}
	return out, bytes
}
