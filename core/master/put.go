package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	opPutStart = "master: put start"
	// maxPreferred bounds the preferred segments of one call.
	maxPreferred = 1024
)

// PutStart allocates room for objects and enters them as being written.
func (s *Service) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig) ([]model.Result[[]model.Replica], error) {
	if err := s.admit(ctx, opPutStart, len(items)); err != nil {
		return nil, err
	}
	if err := checkPut(caller.Client, cfg); err != nil {
		return nil, err
	}
	p := &put{
		s: s, client: caller.Client, cfg: cfg, items: items, now: s.clock.Now(),
		out: make([]model.Result[[]model.Replica], len(items)),
		// One backing array for the common case of one copy a key.
		buf: make([]model.Replica, 0, len(items)),
	}
	p.admit()
	p.run(ctx)
	if err := ctx.Err(); err != nil {
		p.takeBack(ctx)
		s.counters.PutStart.Done(len(items), len(items))
		return nil, errs.Wrap(errs.RPCTimeout, opPutStart, err)
	}
	failed := 0
	for i := range p.out {
		if p.out[i].Err != nil {
			failed++
		} else {
			s.counters.ValueSizes.Observe(items[i].Size)
		}
	}
	s.counters.PutStart.Done(len(items), failed)
	s.feed(ctx)
	return p.out, nil
}

func checkPut(client model.ClientID, cfg model.ReplicateConfig) error {
	switch {
	case client.IsZero():
		return errs.New(errs.InvalidParams, opPutStart, "the client ID is zero")
	case cfg.ReplicaNum == 0:
		return errs.New(errs.InvalidParams, opPutStart, "the number of copies is 0; it must be at least 1")
	case len(cfg.PreferredSegments) > maxPreferred:
		return errs.New(errs.InvalidParams, opPutStart, "%d preferred segments are named; the most is %d", len(cfg.PreferredSegments), maxPreferred)
	}
	return nil
}

// PutEnd makes objects readable.
func (s *Service) PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem) ([]error, error) {
	const op = "master: put end"
	if err := s.admit(ctx, op, len(items)); err != nil {
		return nil, err
	}
	out, failed := make([]error, len(items)), 0
	for i, it := range items {
		if out[i] = validKey(op, it.Key); out[i] == nil {
			out[i] = outcomeError(s.table.Finish(it.Key, it.Put, caller.Client, it.Checksum), op, it.Key)
		}
		if out[i] != nil {
			failed++
		}
	}
	s.counters.PutEnd.Done(len(items), failed)
	s.feed(ctx)
	return out, nil
}

// PutRevoke gives up unfinished puts; their memory is free at once.
func (s *Service) PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	const op = "master: put revoke"
	if err := s.admit(ctx, op, len(items)); err != nil {
		return nil, err
	}
	out, failed := make([]error, len(items)), 0
	var freed []segments.Extent
	s.pool.Enter()
	for i, it := range items {
		if out[i] = validKey(op, it.Key); out[i] == nil {
			var got objects.Outcome
			freed, got = s.table.Revoke(it.Key, it.Put, caller.Client, freed)
			out[i] = outcomeError(got, op, it.Key)
		}
		if out[i] != nil {
			failed++
		}
	}
	s.pool.Free(ctx, freed)
	s.pool.Leave()
	s.counters.PutRevoke.Done(len(items), failed)
	return out, nil
}

// discard keeps the memory of given-up puts until their writers are surely done. Called
// inside the gate.
func (s *Service) discard(given []objects.Held) {
	for _, h := range given {
		s.pool.HoldPut(h.Extent, h.Started.Add(s.cfg.PutReleaseTimeout))
	}
}
