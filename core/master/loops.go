package master

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	evictTick   = 10 * time.Millisecond
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

// evictLoop feeds the policy and keeps the pool below the watermark.
func (s *Service) evictLoop(ctx context.Context) {
	every(ctx, evictTick, func(ctx context.Context) {
		if err := s.evictor.Drain(ctx); err != nil {
			s.log.Debug("events for the eviction policy could not be delivered", "error", err)
		}
		s.evictAtWatermark(ctx)
	})
}

// monitorLoop expires clients, gives up overdue puts and frees what was held back.
func (s *Service) monitorLoop(ctx context.Context) {
	every(ctx, monitorTick, func(ctx context.Context) {
		now := s.clock.Now()
		s.expireClients(ctx, now)
		s.abandon(func(_ model.ClientID, started lease.Instant) bool { return started.Add(s.cfg.PutReleaseTimeout) <= now })
		s.counters.Released.Add(s.pool.Tick(ctx, now))
	})
}

// expireClients unmounts the segments of clients that fell silent and gives up their puts.
func (s *Service) expireClients(ctx context.Context, now lease.Instant) {
	if s.lockMounts(ctx, "master: expire clients") != nil {
		return
	}
	defer s.unlockMounts()
	gone := s.clients.Expire(now, s.cfg.ClientTTL)
	if len(gone) == 0 {
		return
	}
	dead := make(map[model.ClientID]bool, len(gone))
	for _, id := range gone {
		dead[id] = true
	}
	n := 0
	for _, m := range s.registry.View().All {
		if dead[m.Client] {
			s.drop(ctx, m)
			n++
		}
	}
	puts := s.abandon(func(client model.ClientID, _ lease.Instant) bool { return dead[client] })
	for _, id := range gone {
		s.log.Warn("client expired: it sent no ping in time", "client", id.String(), "client_ttl", s.cfg.ClientTTL)
	}
	s.log.Info("segments and puts of expired clients dropped", "clients", len(gone), "segments", n, "puts", puts)
}

// abandon gives up unfinished puts.
func (s *Service) abandon(match func(model.ClientID, lease.Instant) bool) int {
	s.pool.Enter()
	defer s.pool.Leave()
	given, puts := s.table.Abandon(match, nil)
	s.discard(given)
	s.counters.Discarded.Add(puts)
	return puts
}

// sweepLoop clears the table of copies on segments that are gone.
func (s *Service) sweepLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweep:
		}
		gone := 0
		for i := 0; i < objects.Shards && ctx.Err() == nil; i++ {
			gone += s.table.Sweep(i)
			s.feed(ctx)
		}
		s.log.Info("objects of unmounted segments cleared", "objects", gone)
	}
}

// reportLoop writes the periodic log line.
func (s *Service) reportLoop(ctx context.Context) {
	if !s.cfg.MetricReporting {
		return
	}
	every(ctx, reportTick, s.report)
}
