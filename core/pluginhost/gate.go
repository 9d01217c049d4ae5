package pluginhost

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// call runs f on the plugin, or fails at once while there is none. While the process is
// changed for another it waits, within bounds.
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
		err := f(r.Object())
		r.calls.RUnlock()
		s.observe(ctx, r, err)
		return err
	}
}

// enter admits a call, which unlocks r.calls at its end; false where the process is shut.
func (r *running[T]) enter() bool {
	r.calls.RLock()
	if r.shut {
		r.calls.RUnlock()
		return false
	}
	return true
}

// swapped waits for the end of a change of processes; false when there is none, or it takes
// too long.
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

// close shuts the process in use to calls and waits for those under way. Until open, others
// wait, or fail.
func (s *supervisor[T]) close(r *running[T], wait bool) {
	if wait {
		s.swapping.Store(new(make(chan struct{})))
	}
	s.current.Store(nil)
	r.calls.Lock()
	r.shut = true
	r.calls.Unlock()
}

// open lets calls through to a process again. use has made it the current one, or does so
// before the calls look.
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

// processHost is the host of one process. What it reports counts while calls go to it.
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
		case <-h.r.health: // An older report that nobody took.
		}
	}
}

// takeHealth shows what the process last said of itself, if calls go to it. A process
// that calls itself failed is degraded: it still runs.
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
