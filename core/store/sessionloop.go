package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// run pings while there is a reason to, until the session is closed.
func (s *Session) run() {
	pause, last := s.cfg.PingInterval, time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for idle := false; ; {
		var due <-chan time.Time
		if s.busy() {
			if idle {
				last = time.Now() // What comes in the next moments goes with the same ping.
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
		if err := s.ping(); err != nil {
			pause = min(2*pause, s.cfg.MaxPingInterval)
		} else {
			pause = s.cfg.PingInterval
		}
	}
}

// busy reports whether there is a reason to ping.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members) > 0 || s.down || s.fails.Load() > 0 || s.peers.pending()
}

// ping says that this process is alive and what it saw. What a failed ping was to report is
// dropped: it would be old news.
func (s *Session) ping() error {
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.downTimeout())
	defer cancel()
	s.begun.Add(1)
	t0 := time.Now()
	reply, err := s.master.Ping(ctx, s.id, model.PingReport{Peers: s.peers.take(t0)})
	s.metrics.rpc("Ping", time.Since(t0))
	if s.ctx.Err() != nil {
		return nil
	}
	if unanswered(err) {
		s.failed(err)
	} else {
		s.distance.note(time.Since(t0))
		s.worked()
	}
	s.mu.Lock()
	members := s.members
	s.mu.Unlock()
	for _, m := range members {
		m.pinged(err, err == nil && reply.Status == model.ClientNeedRemount)
	}
	s.mu.Lock()
	s.pingErr = err
	s.mu.Unlock()
	s.ended.Add(1)
	s.tell()
	return err
}

// probe finds out whether the master is there on behalf of calls that have waited for half
// of MasterDownTimeout, as long as there are any. When it is not, all calls are ended.
func (s *Session) probe() {
	for s.ready() && s.patient() {
	}
	s.mu.Lock()
	s.probing = false
	s.mu.Unlock()
}

// ready asks the master whether it is there.
func (s *Session) ready() bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.downTimeout()/2)
	defer cancel()
	t0 := time.Now()
	_, err := s.master.Ready(ctx)
	s.metrics.rpc("ServiceReady", time.Since(t0))
	switch {
	case s.ctx.Err() != nil:
		return false
	case !unanswered(err):
		s.distance.note(time.Since(t0))
		s.worked()
	case time.Since(t0) > 2*s.downTimeout():
		// This process did not run in time, which says nothing about the master.
	default:
		s.declare(err)
		return false
	}
	return true
}

// patient waits and reports whether calls wait for long then; if not, the probe is over.
func (s *Session) patient() bool {
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
