package session

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// roundTrips is how many round trips to the master last as long as MasterDownTimeout. TCP resends
	// lost bytes after two of them and doubles the wait each time.
	roundTrips = 25
	// farDownTimeout is the longest bound for a distant master.
	farDownTimeout = 5 * time.Second
)

// downTimeout is MasterDownTimeout, or the time that it takes to tell a distant master from one that
// is down.
func (s *Session) downTimeout() time.Duration {
	return max(s.cfg.MasterDownTimeout, min(roundTrips*time.Duration(s.roundTrip.Load()), farDownTimeout))
}

// reached records an answer of the master that took some time.
func (s *Session) reached(took time.Duration) {
	for old := s.roundTrip.Load(); took > 0 && (old == 0 || int64(took) < old); old = s.roundTrip.Load() {
		if s.roundTrip.CompareAndSwap(old, int64(took)) {
			break
		}
	}
	s.worked()
}

// run pings while there is a reason to, until the session is closed.
func (s *Session) run() {
	pause, last := s.cfg.PingInterval, time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for idle := false; ; {
		var due <-chan time.Time
		if s.busy() {
			if idle {
				last = time.Now() // The same ping reports all observations of the next moments.
			}
			timer.Reset(time.Until(last.Add(pause)))
			due, idle = timer.C, false
		} else {
			idle = true
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
			continue
		case <-due:
		case <-s.urgent:
		}
		last = time.Now()
		s.lastPing.Store(int64(last.Sub(s.born)))
		switch err := s.ping(); {
		case err != nil && s.hurries():
			pause = min(minProbeGap, s.cfg.PingInterval)
		case err != nil:
			pause = min(max(2*pause, s.cfg.PingInterval), s.cfg.MaxPingInterval)
		default:
			pause = s.cfg.PingInterval
		}
	}
}

// busy reports whether there is a reason to ping.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members) > 0 || s.writer.Load() || s.outage.Load() != nil || s.fails.Load() > 0 || s.peers.pending()
}

// ping reports that this process is alive, and its observations. After a failed ping the
// observations are dropped, since they would be outdated.
func (s *Session) ping() error {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.downTimeout())
	defer cancel()
	s.begun.Add(1)
	t0, sent, joins := time.Now(), s.sinceBorn(), s.joins.Load()
	reply, err := s.master.Ping(ctx, s.id, model.PingReport{Peers: s.peers.take(t0), Quiet: s.promise(), PutsSince: s.puts.since()})
	reply.Sent = s.born.Add(sent)
	s.Record("Ping", t0)
	if s.ctx.Err() != nil {
		return nil
	}
	if Unanswered(err) {
		s.failed(err, t0)
	} else {
		s.reached(time.Since(t0))
	}
	s.mu.Lock()
	members := s.members
	s.mu.Unlock()
	forgotten := err == nil && reply.Status == model.ClientNeedRemount
	if forgotten && s.joins.Load() != joins { // A member has joined since it was sent.
		members, forgotten = nil, false
		s.pingNow()
	}
	if forgotten {
		s.replaced()
	}
	if err == nil && !reply.Partial {
		s.heard(sent, reply.Status)
		s.hearEpoch(reply.Epoch, reply.Newest())
	}
	for _, m := range members {
		m.Pinged(reply, err)
	}
	if forgotten {
		s.comeBack(len(members))
	}
	s.mu.Lock()
	s.pingErr = err
	s.mu.Unlock()
	s.ended.Add(1)
	s.notify()
	return err
}

// suspect starts a probe for a call that waits for long, unless one is running.
func (s *Session) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.probing && !s.closed && s.outage.Load() == nil {
		s.probing = true
		s.tasks.Go(s.probe)
	}
}

// probe asks whether the master is up, as long as calls have been waiting for half of
// MasterDownTimeout. If the master is down, all calls end.
func (s *Session) probe() {
	for s.up() && s.stillWaiting() {
	}
	s.mu.Lock()
	s.probing = false
	s.mu.Unlock()
}

// up asks the master whether it is up.
func (s *Session) up() bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.downTimeout()/2)
	defer cancel()
	t0 := time.Now()
	_, err := s.master.Ready(ctx)
	s.Record("ServiceReady", t0)
	switch {
	case s.ctx.Err() != nil:
		return false
	case !Unanswered(err):
		s.reached(time.Since(t0))
	case time.Since(t0) > s.downTimeout():
		// The system did not run this process in time, which says nothing about the master.
	default:
		s.declareDown(err)
		return false
	}
	return true
}

// stillWaiting waits and then reports whether calls have been waiting for long.
func (s *Session) stillWaiting() bool {
	select {
	case <-time.After(s.downTimeout() / 2):
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.pending {
		if time.Since(w.began) >= s.downTimeout()/2 && s.ctx.Err() == nil {
			return true
		}
	}
	return false
}
