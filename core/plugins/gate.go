package plugins

import (
	"context"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// call runs f on the plugin, or fails at once while there is none.
func (s *supervisor[T]) call(ctx context.Context, op string, f func(T) error) error {
	r := s.current.Load()
	if r == nil {
		return s.refuse(op)
	}
	err := f(r.Object())
	switch {
	case !errs.Is(err, errs.RPCTimeout):
		r.timeouts.Store(0)
	case ctx.Err() == nil && int(r.timeouts.Add(1)) == s.bounds.MaxTimeouts:
		s.logger(s.log).Error("plugin does not answer and is killed", "plugin", s.id.String(), "pid", r.PID(), "timeouts", s.bounds.MaxTimeouts, "error", err)
		r.Kill()
	}
	return err
}

// refuse is the error of a call that found no process.
func (s *supervisor[T]) refuse(op string) error {
	in := s.instance()
	op = s.id.String() + ": " + op
	switch in.State {
	case plugin.StateFailed:
		err := errs.WithClass(errs.ClassLocalDevice, "", errs.New(errs.RPCFail, op, "the plugin has failed: %s", in.Reason))
		return errs.WithHint(err, "see its log, correct the cause and start this program again")
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
