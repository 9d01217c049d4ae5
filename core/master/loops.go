package master

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	evictTick   = 10 * time.Millisecond
	healthTick  = 500 * time.Millisecond
	monitorTick = time.Second
	reportTick  = 10 * time.Second
)

// every calls do at each tick until ctx ends.
func every(ctx context.Context, d time.Duration, do func(context.Context)) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do(ctx)
		}
	}
}

// evictLoop tells the policy what happened, resyncs it after a failure, and keeps the pool below
// the watermark.
func (s *Service) evictLoop(ctx context.Context) {
	every(ctx, evictTick, func(ctx context.Context) {
		if err := s.evictor.Tend(ctx); err != nil {
			s.log.Debug("events for the eviction policy could not be delivered", "error", err)
		}
		s.evictAtWatermark(ctx)
	})
}

// monitorLoop expires clients, gives up overdue puts and copies, ends soft pins and graceful
// unmounts, and frees what was held back.
func (s *Service) monitorLoop(ctx context.Context) {
	every(ctx, monitorTick, func(ctx context.Context) {
		now := s.clock.Now()
		s.expireClients(ctx, now)
		s.finishUnmounts(ctx)
		s.abandon(ctx, history.PutOverdue, func(_ model.ClientID, started lease.Instant) bool { return started.Add(s.cfg.PutReleaseTimeout) <= now })
		s.table.Unpin(now)
		s.tasks.Tick(time.Now())
		s.counters.Released.Add(s.pool.Tick(ctx, now))
	})
}

// healthLoop notices nodes that are silent or slow, and those that recover.
func (s *Service) healthLoop(ctx context.Context) {
	every(ctx, healthTick, func(context.Context) { s.health.Tick(s.clock.Now()) })
}

// expireClients unmounts the segments of clients that fell silent and gives up what they
// were writing.
func (s *Service) expireClients(ctx context.Context, now lease.Instant) {
	if s.lockMounts(ctx, "master: expire clients") != nil {
		return
	}
	gone := s.clients.Expire(now, s.cfg.ClientTTL)
	dead := make(map[model.ClientID]bool, len(gone))
	for _, id := range gone {
		dead[id] = true
	}
	var names []string
	for _, m := range s.registry.View().All {
		if dead[m.Client] {
			s.drop(ctx, m, history.SegmentExpired)
			names = append(names, m.Name)
		}
	}
	s.unlockMounts()
	if len(gone) == 0 {
		return
	}
	puts := s.abandon(ctx, history.PutClientExpired, func(client model.ClientID, _ lease.Instant) bool { return dead[client] })
	for _, id := range gone {
		s.tasks.Drop(id, time.Now())
		s.log.Warn("client expired: it sent no ping in time", "client", id.String(), "client_ttl", s.cfg.ClientTTL)
	}
	s.log.Info("segments and puts of expired clients dropped", "clients", len(gone), "segments", len(names), "puts", puts)
	if s.expired != nil && len(names) > 0 {
		slices.Sort(names)
		s.expired(ctx, slices.Compact(names))
	}
}

// abandon gives up unfinished puts and copies, and returns how many puts.
func (s *Service) abandon(ctx context.Context, why history.Reason, match func(model.ClientID, lease.Instant) bool) int {
	s.pool.Enter()
	defer s.pool.Leave()
	var bin objects.Bin
	puts := s.table.Abandon(match, &bin)
	s.table.AbandonCopies(match, &bin)
	s.bury(ctx, &bin, why, false)
	s.counters.Discarded.Add(puts)
	return puts
}

// tenantLoop keeps the quotas in step with their file.
func (s *Service) tenantLoop(ctx context.Context) {
	if s.tenants != nil {
		s.tenants.Run(ctx)
	}
}

// reportLoop writes the periodic log line.
func (s *Service) reportLoop(ctx context.Context) {
	if !s.cfg.MetricReporting {
		return
	}
	every(ctx, reportTick, s.report)
}
