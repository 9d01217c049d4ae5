package session

import (
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// outage is a time during which the master does not answer. It is immutable.
type outage struct {
	since time.Time
	cause error
}

const (
	// failsToDown is how many consecutive calls and pings must go unanswered before the master counts
	// as down. A single one may be due to a connection that was just replaced.
	failsToDown = 2
	// minProbeGap is the least time between pings that calls to a master that is down ask for.
	minProbeGap = 100 * time.Millisecond
	// hasteTime is how long after a change of the leader a ping that fails is repeated every minProbeGap. A
	// master of the reference implementation serves 5 s after it was elected.
	hasteTime = 10 * time.Second
)

// Health is the state of the master as a session knows it.
type Health struct {
	// Down is true while calls fail at once because the master does not answer.
	Down bool
	// Since is when the session noticed, and Cause the error. Both are zero while the master answers.
	Since time.Time
	Cause error
}

// Health reports whether the master answers, without asking it.
func (s *Session) Health() Health {
	if o := s.outage.Load(); o != nil {
		return Health{Down: true, Since: o.since, Cause: o.cause}
	}
	return Health{}
}

// refuse returns the error of a call while the master is known to be down, else nil. It also makes
// sure that the session notices soon when the master is back.
func (s *Session) refuse() error {
	o := s.outage.Load()
	if o == nil {
		return nil
	}
	s.pingSoon(minProbeGap)
	return s.refused(o)
}

func (s *Session) refused(o *outage) error {
	if errors.Is(o.cause, errs.ErrForeign) || errors.Is(o.cause, store.ErrNoLeader) {
		return o.cause // It is complete.
	}
	err := errs.New(errs.RPCFail, "store", "the master has not answered since %s (%v ago): %w",
		o.since.Format("15:04:05"), time.Since(o.since).Round(time.Second), o.cause)
	return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", err),
		"calls fail at once until it answers again, which is tried at least every %v; go on without the pool", s.cfg.MaxPingInterval)
}

// Answered records an answer of the master to a call that a member made by itself.
func (s *Session) Answered() { s.worked() }

// worked records an answer of the master.
func (s *Session) worked() {
	if s.answered.Load() && s.fails.Load() == 0 && s.outage.Load() == nil {
		return
	}
	s.mu.Lock()
	s.fails.Store(0)
	o := s.outage.Swap(nil)
	first := !s.answered.Swap(true)
	s.mu.Unlock()
	if o == nil {
		return
	}
	s.replaced()
	s.metrics.down.Set(0)
	level := slog.LevelInfo
	if first {
		level = slog.LevelDebug // Await logs it.
	}
	s.log.Log(s.ctx, level, "the master answers again", "after", time.Since(o.since).Round(time.Millisecond))
}

// failed records that the master did not answer a call or ping that began at t0. Several consecutive
// times mean that it is down. One that took far longer than the session waits says only that this
// process did not run meanwhile; the next ping finds out.
func (s *Session) failed(err error, t0 time.Time) {
	if time.Since(t0) <= 5*s.downTimeout()/2 && s.fails.Add(1) >= failsToDown {
		s.declareDown(err)
		return
	}
	s.pingNow()
}

// moved is told that another master leads now, or none. The session pings at once, and soon again while
// the new master does not serve yet.
func (s *Session) moved() {
	s.hasty.Store(int64(time.Since(s.born) + hasteTime))
	s.fails.Store(0)
	s.replaced()
	s.pingNow()
}

// MasterSince returns when the master was last seen to be another one than before, or to be another run of
// the same one, or to be back after an outage. Zero for never.
func (s *Session) MasterSince() time.Time {
	if ns := s.since.Load(); ns != 0 {
		return s.born.Add(time.Duration(ns))
	}
	return time.Time{}
}

func (s *Session) replaced() { s.since.Store(int64(time.Since(s.born))) }

// hurries reports whether a master may be about to serve.
func (s *Session) hurries() bool { return time.Since(s.born) < time.Duration(s.hasty.Load()) }

// declareDown makes calls fail at once from now on, including those that wait.
func (s *Session) declareDown(cause error) {
	s.mu.Lock()
	if o := s.outage.Load(); o != nil || s.closed {
		if o != nil && errors.Is(cause, store.ErrNoLeader) != errors.Is(o.cause, store.ErrNoLeader) {
			s.outage.Store(&outage{since: o.since, cause: cause})
		}
		s.mu.Unlock()
		return
	}
	s.outage.Store(&outage{since: time.Now(), cause: cause})
	for w := range s.pending { // Under the lock, since another call reuses w once it is not pending.
		w.End(errGaveUp)
	}
	s.mu.Unlock()
	s.metrics.down.Set(1)
	s.metrics.outages.Inc()
	text, level := "the master does not answer, calls fail at once until it does", slog.LevelWarn
	switch {
	case errors.Is(cause, store.ErrNoLeader):
		text = "no master is known to lead, calls fail at once until one is"
	case errors.Is(cause, errs.ErrForeign):
		text = "something else answers at the master's address, calls fail at once until the master does"
	}
	if !s.answered.Load() {
		level = slog.LevelDebug // Await logs it.
	}
	s.log.Log(s.ctx, level, text, "error", cause)
	s.nudge()
}

// Unanswered reports whether an error means that the call did not reach the master, or that the
// master did not answer, or that something else did, or that there is no master to answer.
func Unanswered(err error) bool {
	code := errs.CodeOf(err)
	return code == errs.RPCFail || code == errs.RPCTimeout || errors.Is(err, errs.ErrForeign) || errors.Is(err, store.ErrNoLeader)
}
