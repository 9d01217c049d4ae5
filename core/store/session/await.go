package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// leastPause and mostPause bound the pause between two attempts to reach the master.
	leastPause, mostPause = 50 * time.Millisecond, 500 * time.Millisecond
	// progressInterval is the time between log lines of a wait.
	progressInterval = 10 * time.Second
	// settleAsk bounds the time that a call waits for a master that did not answer a moment ago,
	// settleJoin the time that it waits for a node to join at a master that answers.
	settleAsk, settleJoin = 100 * time.Millisecond, 5 * time.Second
)

// Await returns once the master answers. It tries for limit, at least once, and returns at once with
// an error that waiting cannot fix, such as that of a master of another version. It logs what it
// waits for, first at once and then every 10 s.
func (s *Session) Await(ctx context.Context, limit time.Duration) error {
	return s.Retry(ctx, limit, s.Reach)
}

// Retry is Await with an attempt of the caller's.
func (s *Session) Retry(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	began := time.Now()
	var logged time.Time
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := attempt(ctx)
		switch {
		case err == nil:
			if !logged.IsZero() {
				s.log.Warn("the master answers, the wait is over", "address", s.cfg.Address, "after", time.Since(began).Round(time.Millisecond))
			}
			return nil
		case ctx.Err() != nil:
			return errs.Wrap(errs.Internal, "store: wait for the master", ctx.Err())
		case errs.ClassOf(err) == errs.ClassPermanent || s.ctx.Err() != nil:
			return err
		case time.Since(began)+pause > limit:
			return errs.WithHint(err, "check that the master and the metadata service are running and reachable from here")
		}
		if logged.IsZero() || time.Since(logged) >= progressInterval {
			logged = time.Now()
			s.logWait(limit, logged.Sub(began), err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *Session) logWait(limit, waited time.Duration, err error) {
	what := "waiting for the master"
	if s.outage.Load() == nil && s.answered.Load() {
		what = "waiting to join the pool"
	}
	attrs := []any{"address", s.cfg.Address, "up_to", limit}
	if waited >= progressInterval {
		attrs = append(attrs, "waited", waited.Round(time.Second))
	}
	s.log.Log(s.ctx, slog.LevelWarn, what, append(attrs, "error", err)...)
}

// Reach pings the master and returns the error of the ping.
func (s *Session) Reach(ctx context.Context) error {
	next := s.begun.Load() + 1
	s.pingNow()
	if err := s.Until(ctx, func() bool { return s.ended.Load() >= next }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pingErr
}

// letJoin delays a call that comes before a node has joined: it asks for the master unless a ping
// has just done so, and waits for the node if the master answers. While the master is down, one call
// of many waits for at most settleAsk, and the others do not wait.
func (s *Session) letJoin(ctx context.Context) {
	if s.outage.Load() != nil && !s.isBack(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleJoin)
	defer cancel()
	joins := s.joins.Load()
	s.pingNow()
	// An error means that the time is over; the call itself finds out why.
	_ = s.Until(ctx, func() bool { return s.outside.Load() == 0 || s.joins.Load() > joins || s.outage.Load() != nil })
}

// isBack asks whether a master that was down is up, unless the session has just asked, or is asking.
func (s *Session) isBack(ctx context.Context) bool {
	if s.begun.Load() != s.ended.Load() || time.Since(s.born)-time.Duration(s.lastPing.Load()) < minProbeGap || !s.settling.CompareAndSwap(false, true) {
		return false
	}
	defer s.settling.Store(false)
	ctx, cancel := context.WithTimeout(ctx, settleAsk)
	defer cancel()
	return s.Reach(ctx) == nil
}

// notify wakes the callers of Until.
func (s *Session) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Until waits until ok returns true. It calls ok after every ping and every attempt to join.
func (s *Session) Until(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errs.Wrap(errs.Internal, "store: wait for the master", ctx.Err())
		case <-s.ctx.Done():
			return errs.Wrap(errs.Internal, "store: wait for the master", store.ErrClosed)
		}
	}
}
