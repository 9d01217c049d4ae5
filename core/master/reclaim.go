package master

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// This reclaims the objects that left the table: it frees their memory, refunds their tenants and
// records what became of them. It is called inside the gate. Memory that a reader holds a lease
// on, or that a writer may be writing yet, stays as it is until that is over; writerDone says
// that the writers themselves gave up.
func (s *Service) reclaim(ctx context.Context, bin *objects.Bin, why history.Reason, writerDone bool) {
	s.reclaimOf(ctx, bin, why, writerDone, nil)
}

// reclaimOf is reclaim where some writers are silent, with until when each may write, as it promised.
func (s *Service) reclaimOf(ctx context.Context, bin *objects.Bin, why history.Reason, writerDone bool, silent map[model.ClientID]lease.Instant) {
	if len(bin.Objects) == 0 {
		return
	}
	now := s.clock.Now()
	var free []segments.Extent
	for g, extents := range bin.Each {
		switch {
		case g.Unfinished && !writerDone:
			late := max(g.Since.Add(s.cfg.PutReleaseTimeout), g.Lease)
			until := late
			if g.Writer != nil && silent[g.Writer.ID] != 0 {
				until = min(max(silent[g.Writer.ID], g.Lease), late)
			}
			for _, e := range extents {
				s.pool.HoldWriter(e, g.Writer, until, late)
			}
		case g.Lease > now:
			for _, e := range extents {
				s.pool.HoldRead(e, g.Lease)
			}
		default:
			free = append(free, extents...)
		}
		if s.tenants != nil {
			s.usage.Refund(quota.Owner(g.Key), g.Footprint)
		}
		s.announceGone(g)
		if !g.Partial {
			s.history.Record(s.table.Print(g.Key), history.Gone{Reason: why, Size: g.Size, Idle: s.idle(g, now)}, now)
		}
	}
	s.pool.Free(ctx, free)
}

// idle is how long no client had read the object.
func (s *Service) idle(g *objects.Gone, now lease.Instant) time.Duration {
	read := g.Lease - lease.Instant(s.cfg.LeaseTTL)
	return max(now.Sub(max(g.Since, read)), 0)
}

// The evictor uses the Service through this type.
type reclaimer struct{ *Service }

// Enter enters the pool's gate.
func (g reclaimer) Enter() { g.pool.Enter() }

// Leave leaves the pool's gate.
func (g reclaimer) Leave() { g.pool.Leave() }

// The evictor passes evicted objects to this method, which counts and reclaims them.
func (g reclaimer) Reclaim(ctx context.Context, bin *objects.Bin, why history.Reason) {
	now := g.clock.Now()
	for i := range bin.Objects {
		o := &bin.Objects[i]
		g.counters.EvictedAges.Observe(now.Sub(o.Since))
		if o.Unsaved {
			g.counters.EvictedUnsaved.Add(1)
		}
		if g.tenants != nil {
			g.counters.TenantEvictedBytes.Add(o.Footprint, quota.Owner(o.Key))
		}
	}
	g.reclaim(ctx, bin, why, false)
}
