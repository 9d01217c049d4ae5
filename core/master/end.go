package master

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/revoked"
	"github.com/mooncake-go/mooncake/core/model"
)

// PutEnd makes objects readable. The order of the keys tells which page comes before
// which.
func (s *Service) PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	const op = "master: put end"
	c, err := s.admitted(ctx, op, caller, len(items))
	if err != nil {
		return nil, err
	}
	var (
		out, failed = make([]error, len(items)), 0
		client      = s.table.Known(caller.Client)
		now         = s.clock.Now()
		before      objects.Handle
	)
	if caller.Upstream {
		defer s.land(ctx, op, c, items, out)()
	}
	for i, it := range items {
		if out[i] = soughtKey(op, it.Key); out[i] == nil {
			name, parent := c.name(it.Key), before
			if parent == 0 {
				parent = s.lineage.Take(s.table.Print(name))
			}
			var got objects.Outcome
			var took time.Duration
			sum := it.Checksum
			if caller.Upstream && sum.Kind == model.ChecksumNone {
				sum.Value = ledger.Unacknowledged
			}
			if before, took, got = s.table.Finish(name, it.Put, client, sum, now, parent, it.Grains...); took > 0 {
				s.counters.PutTimes.Observe(took)
			}
			out[i] = outcomeError(got, op, it.Key)
			if got == objects.Done {
				s.announceStored(name)
			}
			if took > 0 && it.Checksum.Kind == model.ChecksumNone {
				s.counters.Unsummed.Add(1)
			}
		}
		if out[i] != nil {
			before = 0
			failed++
		}
	}
	s.counters.PutEnd.Done(len(items), failed)
	s.feed(ctx)
	return out, nil
}

// land keeps the objects of puts that end from readers. The function that it returns has the nodes confirm that all bytes of
// those that have ended have arrived, which the writers do not know, and then lets them be read. The objects of a node that does
// not confirm in time are removed, and their ends fail.
func (s *Service) land(ctx context.Context, op string, c scope, items []model.EndItem, failed []error) (confirm func()) {
	names := make([]string, len(items))
	for i := range items {
		names[i] = c.name(items[i].Key)
	}
	s.landing.Begin(names)
	return func() {
		defer s.landing.End(names)
		var all touched
		lies := make([]touched, len(names))
		for i, name := range names {
			if v, ok := s.table.Look(name); ok && failed[i] == nil {
				for j := range v.Replicas {
					if m := s.registry.Get(v.Replicas[j].SegmentID); m != nil {
						all.add(m)
						lies[i].add(m)
					}
				}
			}
		}
		late, err := s.await(ctx, all, nil)
		if late == nil {
			return
		}
		var bin objects.Bin
		s.pool.Enter()
		for i, name := range names {
			if failed[i] == nil && lies[i].meets(late) {
				failed[i] = lateError(op, late, err)
				s.table.Remove(name, s.clock.Now(), true, &bin)
			}
		}
		s.reclaim(ctx, &bin, history.PutUnconfirmed, true)
		s.pool.Leave()
	}
}

// PutRevoke gives up unfinished puts. Their keys are free at once, and so is their memory;
// that of items in quarantine when PutReleaseTimeout is over.
func (s *Service) PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	const op = "master: put revoke"
	c, err := s.admitted(ctx, op, caller, len(items))
	if err != nil {
		return nil, err
	}
	var (
		out, failed       = make([]error, len(items)), 0
		client            = s.table.Known(caller.Client)
		done, quarantined objects.Bin
	)
	s.pool.Enter()
	for i, it := range items {
		if out[i] = soughtKey(op, it.Key); out[i] == nil {
			bin := &done
			if it.Quarantined {
				bin = &quarantined
			}
			got := s.table.Revoke(c.name(it.Key), it.Put, client, bin)
			if got == objects.Missing && it.Put != 0 { // Its segment may be about to attach, or just attached.
				s.revoked.Add(it.Put, revoked.By{Client: caller.Client, Quarantined: it.Quarantined})
				got = s.table.Revoke(c.name(it.Key), it.Put, client, bin)
			}
			out[i] = outcomeError(got, op, it.Key)
		}
		if out[i] != nil {
			failed++
		}
	}
	s.reclaim(ctx, &done, history.PutRevoked, true)
	s.reclaim(ctx, &quarantined, history.PutQuarantined, false)
	s.pool.Leave()
	s.counters.Discarded.Add(len(quarantined.Objects))
	s.counters.Quarantined.Add(len(quarantined.Objects))
	s.counters.PutRevoke.Done(len(items), failed)
	return out, nil
}
