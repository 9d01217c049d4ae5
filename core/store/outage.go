package store

import (
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// outage is an absence of the master. It does not change once made.
type outage struct {
	since time.Time
	cause error
}

// failsToDown is how many calls and pings in a row go unanswered before the master counts
// as down: one may be a connection that was just replaced.
const failsToDown = 2

// minProbeGap is the least time between pings that calls to a master that is down ask for.
const minProbeGap = 100 * time.Millisecond

// Health is how a session sees the master.
type Health struct {
	// Down is true while calls fail at once because the master does not answer.
	Down bool
	// Since is when it was noticed, Cause what was seen; zero while it answers.
	Since time.Time
	Cause error
}

// Health tells whether the master answers, as far as is known without asking it.
func (s *Session) Health() Health {
	if o := s.outage.Load(); o != nil {
		return Health{Down: true, Since: o.since, Cause: o.cause}
	}
	return Health{}
}

// refuse returns the error of a call made while the master is known to be down, nil while
// it is not, and sees to it that its return is noticed soon.
func (s *Session) refuse() error {
	o := s.outage.Load()
	if o == nil {
		return nil
	}
	if time.Since(s.born)-time.Duration(s.lastPing.Load()) >= minProbeGap {
		s.hurry()
	}
	return s.refused(o)
}

func (s *Session) refused(o *outage) error {
	if errors.Is(o.cause, errs.ErrForeign) {
		return o.cause // It says all, and is permanent.
	}
	err := errs.New(errs.RPCFail, "store", "the master has not answered since %s (%v ago): %w",
		o.since.Format("15:04:05"), time.Since(o.since).Round(time.Second), o.cause)
	return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", err),
		"calls fail at once until it answers again, which is tried at least every %v; go on without the pool", s.cfg.MaxPingInterval)
}

// worked notes an answer of the master.
func (s *Session) worked() {
	if s.met.Load() && s.fails.Load() == 0 && s.outage.Load() == nil {
		return
	}
	s.mu.Lock()
	s.fails.Store(0)
	o := s.outage.Swap(nil)
	s.down = false
	first := !s.met.Swap(true)
	s.mu.Unlock()
	if o != nil {
		s.metrics.down.Set(0)
		level := slog.LevelInfo
		if first {
			level = slog.LevelDebug // Await says it.
		}
		s.log.Log(s.ctx, level, "the master answers again", "after", time.Since(o.since).Round(time.Millisecond))
	}
}

// failed notes that the master did not answer; several times in a row mean that it is down.
func (s *Session) failed(err error) {
	if s.fails.Add(1) >= failsToDown {
		s.declare(err)
		return
	}
	s.hurry()
}

// declare makes calls fail at once from now on, those that wait included.
func (s *Session) declare(cause error) {
	s.mu.Lock()
	if s.down || s.closed {
		s.mu.Unlock()
		return
	}
	s.down = true
	s.outage.Store(&outage{since: time.Now(), cause: cause})
	for w := range s.pending { // Under the lock: it is another call's once it is not pending.
		w.End(errGaveUp)
	}
	s.mu.Unlock()
	s.metrics.down.Set(1)
	s.metrics.outages.Inc()
	text, level := "the master does not answer, calls fail at once until it does", slog.LevelWarn
	if errors.Is(cause, errs.ErrForeign) {
		text = "something else answers at the master's address, calls fail at once until the master does"
	}
	if !s.met.Load() {
		level = slog.LevelDebug // Await says it.
	}
	s.log.Log(s.ctx, level, text, "error", cause)
	s.nudge()
}

// suspect has a call that waits for long looked into, once for all that wait.
func (s *Session) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.probing && !s.closed && !s.down {
		s.probing = true
		s.tasks.Go(s.probe)
	}
}

// unanswered reports whether an error means that the master was not reached, or did not
// answer, or that something else did.
func unanswered(err error) bool {
	code := errs.CodeOf(err)
	return code == errs.RPCFail || code == errs.RPCTimeout || errors.Is(err, errs.ErrForeign)
}
