package pluginhost

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// call runs f on the plugin, or fails at once while no process runs. While the process is being
// replaced, call waits for at most CallTimeout.
func (s *supervisor[T]) call(ctx context.Context, op string, f func(T) error) error {
	for {
		r := s.current.Load()
		if r == nil {
			if s.swapped(ctx) {
				continue
			}
			return s.refuse(op)
		}
		if !r.enter() {
			continue
		}
		began := time.Now()
		err := f(r.Object())
		r.calls.RUnlock()
		s.observe(ctx, r, began, err)
		return err
	}
}

// enter admits a call, which unlocks r.calls at its end. It returns false if the process is shut
// to calls.
func (r *running[T]) enter() bool {
	r.calls.RLock()
	if r.shut {
		r.calls.RUnlock()
		return false
	}
	return true
}

// swapped waits for the end of a change of processes. It returns false if there is none, or if
// it takes too long.
func (s *supervisor[T]) swapped(ctx context.Context) bool {
	done := s.swapping.Load()
	if done == nil {
		return s.current.Load() != nil
	}
	timer := time.NewTimer(s.bounds.CallTimeout)
	defer timer.Stop()
	select {
	case <-*done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// close shuts the process in use to calls and waits for those in flight. Until open, further
// calls wait, or fail if wait is false.
func (s *supervisor[T]) close(r *running[T], wait bool) {
	if wait {
		s.swapping.Store(new(make(chan struct{})))
	}
	s.current.Store(nil)
	r.calls.Lock()
	r.shut = true
	r.calls.Unlock()
}

// open lets calls through to a process again, and makes it the current one unless it has ended.
func (s *supervisor[T]) open(r *running[T]) {
	r.calls.Lock()
	r.shut = false
	r.calls.Unlock()
	if !r.ended() {
		s.current.Store(r)
		if r.ended() {
			s.current.CompareAndSwap(r, nil)
		}
	}
	if done := s.swapping.Swap(nil); done != nil {
		close(*done)
	}
}

// refuse is the error of a call that found no process.
func (s *supervisor[T]) refuse(op string) error {
	in := s.status.instance()
	op = s.id.String() + ": " + op
	switch in.State {
	case plugin.StateFailed:
		err := errs.WithClass(errs.ClassLocalDevice, "", errs.New(errs.RPCFail, op, "the plugin has failed: %s", in.Reason))
		return errs.WithHint(err, "see its log, correct the cause, then run: mooncake plugins reload %s", s.id)
	case plugin.StateAvailable, plugin.StateStarting, plugin.StateStopping, plugin.StateStopped:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the plugin is not running (%s)", in.State)
	}
	return errs.New(errs.RPCFail, op, "the plugin is being started again: %s", in.Reason)
}

// processHost is the host of one process. Its reports count while calls go to the process.
type processHost[T plugin.Component] struct {
	s *supervisor[T]
	r *running[T]
}

// Logger implements plugin.Host.
func (h processHost[T]) Logger() *slog.Logger { return h.s.logger(h.s.log) }

// Report implements plugin.Host.
func (h processHost[T]) Report(health plugin.Health) {
	for {
		select {
		case h.r.health <- health:
			h.s.takeHealth(h.r)
			return
		case <-h.r.health: // Drop an older report that was not taken.
		}
	}
}

// Security implements security.Host.
func (h processHost[T]) Security() security.Settings { return h.s.security() }

// takeHealth shows the last report of a process, if calls go to it. A process that reports
// itself as failed counts as degraded, since it still runs.
func (s *supervisor[T]) takeHealth(r *running[T]) {
	still := func() bool { return s.current.Load() == r }
	if !still() {
		return
	}
	select {
	case h := <-r.health:
		switch h.State {
		case plugin.StateOK:
			s.setIf(still, plugin.Health{State: plugin.StateOK}, nil)
		case plugin.StateDegraded, plugin.StateFailed:
			s.setIf(still, plugin.Health{State: plugin.StateDegraded, Reason: h.Reason}, nil)
		}
	default:
	}
}
