package master

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	evictTick   = 10 * time.Millisecond
	healthTick  = 500 * time.Millisecond
	monitorTick = time.Second
	reportTick  = 10 * time.Second
	revokedTick = time.Minute
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

// clockLoop makes every deadline later by the time during which this process did not run, or did not lead.
func (s *Service) clockLoop(ctx context.Context) {
	s.clock.Run(ctx, s.leads.Valid, func(gap time.Duration) {
		if s.fresh.Swap(false) {
			return
		}
		s.counters.Paused.Add(int(gap.Milliseconds()))
		s.log.Warn("this process did not run for a while, or did not lead; all leases and timeouts of the pool last longer by that",
			"pause", gap.Round(time.Millisecond))
	})
}

// evictLoop sends events to the policy, resyncs it after a failure, and keeps the pool below the
// watermark.
func (s *Service) evictLoop(ctx context.Context) {
	every(ctx, evictTick, func(ctx context.Context) {
		if err := s.evictor.Tend(ctx); err != nil {
			s.log.Debug("events for the eviction policy could not be delivered", "error", err)
		}
		if s.phase() == serving {
			s.evictAtWatermark(ctx)
		}
	})
}

// monitorLoop expires clients, abandons overdue puts and copies, ends soft pins and graceful
// unmounts, and frees quarantined memory that is due.
func (s *Service) monitorLoop(ctx context.Context) {
	every(ctx, monitorTick, func(ctx context.Context) {
		if s.phase() != serving {
			return
		}
		now := s.clock.Now()
		s.expireClients(ctx, now)
		s.finishUnmounts(ctx)
		s.registry.Reopen(now)
		s.table.Writers.Prune()
		s.abandonPast(ctx)
		s.abandon(ctx, history.PutOverdue, nil, func(_ model.ClientID, started lease.Instant) bool { return started.Add(s.cfg.PutReleaseTimeout) <= now })
		s.table.Unpin(now)
		s.tasks.Tick(s.clock.Stamp())
		s.counters.Released.Add(s.pool.Tick(ctx, now))
	})
}

// healthLoop detects nodes that are silent or slow, and those that recover.
func (s *Service) healthLoop(ctx context.Context) {
	every(ctx, healthTick, func(context.Context) { s.health.Tick(s.clock.Now()) })
}

// expireClients unmounts the segments of clients that fell silent and abandons their unfinished
// puts.
func (s *Service) expireClients(ctx context.Context, now lease.Instant) {
	if s.lockMounts(ctx, "master: expire clients") != nil {
		return
	}
	gone := s.clients.Expire(now, s.cfg.ClientTTL)
	dead := func(id model.ClientID) bool {
		_, is := gone[id]
		return is
	}
	var names []string
	lost := map[model.ClientID]bool{} // whose end costs something
	v := s.registry.View()
	for _, m := range slices.Concat(v.All, v.Away) {
		lost[m.Client] = true
		switch {
		case dead(m.Client) && m.Ledger != nil && s.cfg.SegmentRetention > 0:
			s.registry.SetAbsent(m, now)
			s.setQuotas()
			s.announceLying(m)
			names = append(names, m.Name)
			s.log.Warn("segment absent: its node is silent; what it holds is unreadable until the node returns",
				"segment", m.Name, "id", m.ID.String(), "objects_kept_for", s.cfg.SegmentRetention)
		case dead(m.Client), m.Absent() && now.Sub(m.AbsentSince()) > s.cfg.SegmentRetention:
			s.drop(ctx, m, history.SegmentExpired)
			names = append(names, m.Name)
		}
	}
	s.forgetReports(now)
	s.expireStripes(ctx, now)
	s.unlockMounts()
	if len(gone) == 0 && len(names) == 0 {
		return
	}
	puts := s.abandon(ctx, history.PutClientExpired, gone, func(client model.ClientID, _ lease.Instant) bool {
		lost[client] = lost[client] || dead(client)
		return dead(client)
	})
	for id := range gone {
		if _, known := s.clients.Seen(id); known { // It was registered before its puts were abandoned; see welcome.
			s.pool.Recall(id)
		}
		s.tasks.Drop(id, s.clock.Stamp())
		level := slog.LevelDebug // As a rule a process that has put what it wanted.
		if lost[id] {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "client expired: it sent no ping in time", "client", id.String(), "client_ttl", s.cfg.ClientTTL)
	}
	if len(names) > 0 || puts > 0 {
		s.log.Info("segments and puts of expired clients dropped", "clients", len(gone), "segments", len(names), "puts", puts)
	}
	if s.expired != nil && len(names) > 0 {
		slices.Sort(names)
		s.expired(ctx, slices.Compact(names))
	}
}

// welcome makes a client known, or refreshes it. What one that seemed to be dead may be writing yet stays in use until its
// puts must have ended.
func (s *Service) welcome(client model.ClientID) (known bool, err error) {
	_, known = s.clients.Seen(client)
	if err := s.clients.Register(client, s.clock.Now()); err != nil {
		return known, err
	}
	if !known {
		s.pool.Recall(client)
	}
	return known, nil
}

// abandon abandons unfinished puts and copies, and returns the number of puts. silent has until when clients may write,
// as they promised.
func (s *Service) abandon(ctx context.Context, why history.Reason, silent map[model.ClientID]lease.Instant, match func(model.ClientID, lease.Instant) bool) int {
	s.pool.Enter()
	defer s.pool.Leave()
	var bin objects.Bin
	puts := s.table.Abandon(match, &bin)
	s.table.AbandonCopies(match, &bin)
	s.reclaimOf(ctx, &bin, why, false, silent)
	s.counters.Discarded.Add(puts)
	return puts
}

// abandonPast abandons the puts that a master before this one began and whose writers say that they are over: those of which
// the writer has no answer, and those that it could not revoke.
func (s *Service) abandonPast(ctx context.Context) {
	since := s.clients.PutsSince()
	if len(since) == 0 {
		return
	}
	s.pool.Enter()
	defer s.pool.Leave()
	var bin objects.Bin
	puts := s.table.AbandonPast(since, &bin)
	s.reclaim(ctx, &bin, history.PutRevoked, true)
	s.counters.Discarded.Add(puts)
}

// tenantLoop keeps the quotas in step with their file.
func (s *Service) tenantLoop(ctx context.Context) {
	if s.tenants != nil {
		s.tenants.Run(ctx)
	}
}

// drainLoop drives the drain jobs.
func (s *Service) drainLoop(ctx context.Context) { s.drains.Run(ctx, s.clock.Stamp) }

// reportLoop writes the periodic log line.
func (s *Service) reportLoop(ctx context.Context) {
	if !s.cfg.MetricReporting {
		return
	}
	every(ctx, reportTick, s.report)
}

// revokedLoop forgets revoked puts that did not come back.
func (s *Service) revokedLoop(ctx context.Context) {
	every(ctx, revokedTick, func(context.Context) { s.revoked.Turn() })
}

// sweepLoop removes copies on departed segments from the table.
func (s *Service) sweepLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweep:
			s.clearTable(ctx)
		}
	}
}

// clearTable removes copies on segments that have departed by now, unless ctx ends first.
func (s *Service) clearTable(ctx context.Context) {
	why, gone := history.Reason(s.lost.Load()), 0
	var bin objects.Bin
	for at, more := objects.Cursor(0), true; more && ctx.Err() == nil; more = at != 0 {
		bin.Reset()
		s.pool.Enter()
		n := 0
		n, at = s.table.Sweep(at, &bin)
		gone += n
		s.reclaim(ctx, &bin, why, false)
		s.pool.Leave()
		s.feed(ctx)
	}
	s.log.Info("objects of unmounted segments cleared", "objects", gone)
}

// departed holds the segments that have departed while objects lie on them. A value is true once
// the table holds no copy on the segment.
type departed map[*segments.Segment]bool

// settle makes sure that no object lies in the memory of segments that are about to be mounted,
// since a client may have mounted that memory before. Extents that clients may still use are in
// quarantine afterwards, and space.Pool.Mount keeps them there. The caller holds the lock of
// mounts. The error is RPCTimeout if ctx ends first.
func (s *Service) settle(ctx context.Context, op string, client model.ClientID, segs []model.Segment) error {
	again := false
	for m, cleared := range s.departed {
		switch {
		case m.Used() == 0:
			delete(s.departed, m)
		case !cleared && m.Client == client:
			again = again || overlapsAny(m, segs)
		}
	}
	if !again {
		return nil
	}
	s.clearTable(ctx)
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.RPCTimeout, op, err)
	}
	for m := range s.departed {
		s.departed[m] = true
	}
	return nil
}

func overlapsAny(m *segments.Segment, segs []model.Segment) bool {
	return slices.ContainsFunc(segs, func(o model.Segment) bool { return m.Base < o.Base+o.Size && o.Base < m.Base+m.Size })
}
