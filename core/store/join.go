package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// leastPause and mostPause bound the pause between two attempts to reach the master.
	leastPause, mostPause = 50 * time.Millisecond, 500 * time.Millisecond
	// progressInterval is the time between log lines of a wait.
	progressInterval = 10 * time.Second
	// settleAsk bounds how long a call waits for a master that did not answer a moment ago,
	// settleJoin how long it waits for a node to join at a master that answers.
	settleAsk, settleJoin = 100 * time.Millisecond, 5 * time.Second
)

// Await returns once the master answers. It keeps asking for limit, at least once, and returns
// at once with an error that waiting cannot fix, such as that of a master of another version.
// The log says what it waits for, first at once and then every 10 s.
func (s *Session) Await(ctx context.Context, limit time.Duration) error {
	return s.persist(ctx, limit, s.knock)
}

// persist makes attempts until one succeeds, for limit.
func (s *Session) persist(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	began := time.Now()
	var said time.Time
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		err := attempt(ctx)
		switch {
		case err == nil:
			if !said.IsZero() {
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
		if said.IsZero() || time.Since(said) >= progressInterval {
			said = time.Now()
			s.sayWaiting(limit, said.Sub(began), err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *Session) sayWaiting(limit, waited time.Duration, err error) {
	what := "waiting for the master"
	if s.outage.Load() == nil && s.met.Load() {
		what = "waiting to join the pool"
	}
	attrs := []any{"address", s.cfg.Address, "up_to", limit}
	if waited >= progressInterval {
		attrs = append(attrs, "waited", waited.Round(time.Second))
	}
	s.log.Log(s.ctx, slog.LevelWarn, what, append(attrs, "error", err)...)
}

// knock pings and returns how that went; nil means that the master answered.
func (s *Session) knock(ctx context.Context) error {
	next := s.begun.Load() + 1
	s.hurry()
	if err := s.until(ctx, func() bool { return s.ended.Load() >= next }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pingErr
}

// settle lets a call that comes before a node has joined complete that: it asks for the master
// where no ping has just done so, and waits for the node where the master answers. A master
// that is down costs one call of many settleAsk, at most, and the others nothing.
func (s *Session) settle(ctx context.Context) {
	if s.outage.Load() != nil && !s.found(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleJoin)
	defer cancel()
	joins := s.joins.Load()
	s.hurry()
	// An error means that time is up; the call itself finds out how things are.
	_ = s.until(ctx, func() bool { return s.outside.Load() == 0 || s.joins.Load() > joins || s.outage.Load() != nil })
}

// found asks whether a master that was down is there, unless that was just asked, or is being asked.
func (s *Session) found(ctx context.Context) bool {
	if s.begun.Load() != s.ended.Load() || time.Since(s.born)-time.Duration(s.lastPing.Load()) < minProbeGap || !s.settling.CompareAndSwap(false, true) {
		return false
	}
	defer s.settling.Store(false)
	ctx, cancel := context.WithTimeout(ctx, settleAsk)
	defer cancel()
	return s.knock(ctx) == nil
}

// joined notes the end of a member's attempt to join.
func (s *Session) joined() {
	s.mu.Lock()
	s.count()
	s.mu.Unlock()
	s.joins.Add(1)
	s.tell()
}

// count counts the members that have not joined. mu is held.
func (s *Session) count() {
	n := int32(0)
	for _, m := range s.members {
		if !m.inside() {
			n++
		}
	}
	s.outside.Store(n)
}

// tell wakes what waits with until.
func (s *Session) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits until ok holds, which is looked at after every tell.
func (s *Session) until(ctx context.Context, ok func() bool) error {
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
			return errs.Wrap(errs.Internal, "store: wait for the master", ErrClosed)
		}
	}
}
