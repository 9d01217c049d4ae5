package pluginhost

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Reload replaces the process of a plugin in use by a new process that runs the current file. It
// makes the same checks as the first start, and loses no call and no operation. The new process
// is started beside the old one, configured, and resynced; then calls and operations go to it.
// The old process is stopped when its operations in flight are complete and, for a transport,
// peers could learn the new endpoint. Stop of the old process ends the remaining operations of
// peers in order, within Supervision.StopTimeout.
//
// If the two cannot run side by side, because of a fixed port or an exclusive device, the old
// process is stopped first, and calls fail meanwhile as they do at a restart. A plugin that
// failed for good is started.
//
// Reload returns when the old process has ended, or when ctx ends after the change. The error
// is an *OpenError. The old process is still in use then, unless the error says otherwise. The
// code is FileNotFound for a plugin that is not in use, NotSupported for one that is linked in.
func (c *Catalog) Reload(ctx context.Context, id plugin.ID) (Instance, error) {
	fail := func(err error) (Instance, error) { return Instance{}, &OpenError{ID: id, Stage: StageFind, Err: err} }
	c.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(c.open), func(o opened) bool { return o.instance().ID() != id })
	c.mu.Unlock()
	if len(open) == 0 {
		return fail(errs.WithHint(errs.New(errs.FileNotFound, "", "it is not in use here"), "'mooncake plugins list' shows what is in use"))
	}
	var in Instance
	for _, o := range open {
		r, ok := o.(interface {
			reloadNow(ctx context.Context) error
		})
		if !ok {
			return fail(errs.WithHint(errs.New(errs.NotSupported, "", "it is linked into this program and cannot be changed while that runs"),
				"start the program again, or run the plugin with mode: subprocess"))
		}
		if err := r.reloadNow(ctx); err != nil {
			return o.instance(), err
		}
		in = o.instance()
	}
	return in, nil
}

// reloading is a request to the loop of a supervisor.
type reloading[T any] struct {
	ctx     context.Context
	changed chan struct{} // closed when the new process is in use
	done    chan error    // capacity 1
}

// reloadNow asks the loop for a new process and waits for it.
func (s *supervisor[T]) reloadNow(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &OpenError{ID: s.id, Stage: StageFind, Err: errs.Wrap(errs.RPCTimeout, "", err)}
	}
	if !s.looping.Load() || s.ctx.Err() != nil {
		return &OpenError{ID: s.id, Stage: StageFind, Err: errs.New(errs.UnavailableInCurrentStatus, "", "it is not running (%s)", s.status.instance().State)}
	}
	q := &reloading[T]{ctx: ctx, changed: make(chan struct{}), done: make(chan error, 1)}
	stopping := &OpenError{ID: s.id, Stage: StageFind, Err: errs.New(errs.UnavailableInCurrentStatus, "", "it is being stopped")}
	select {
	case s.reloads <- q:
	case <-ctx.Done():
		return &OpenError{ID: s.id, Stage: StageFind, Err: errs.Wrap(errs.RPCTimeout, "", ctx.Err())}
	case <-s.ctx.Done():
		return stopping
	}
	select {
	case err := <-q.done:
		return err
	case <-q.changed:
	case <-s.ctx.Done():
		return stopping
	}
	select { // The change is made; the log says how the old process ends.
	case err := <-q.done:
		return err
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return nil
}

// reload replaces r, which is nil if no process runs. It returns the process in use, and
// whether that is a new one.
func (s *supervisor[T]) reload(q *reloading[T], r *running[T]) (*running[T], bool) {
	ctx, cancel := s.within(q.ctx)
	defer cancel()
	if r == nil || r.ended() {
		next, err := s.bringUp(ctx, true)
		if err != nil {
			q.done <- err
			return r, false
		}
		if r != nil {
			s.closeProcess(ctx, r)
		}
		s.use(next)
		q.done <- nil
		return next, true
	}
	if s.alone {
		return s.inTurn(ctx, q, r, errAlone)
	}
	next, err := s.beside(ctx, r)
	switch {
	case err == nil:
		close(q.changed)
		s.loop.Go(func() {
			s.retire(q.ctx, r)
			q.done <- nil
		})
		return next, true
	case exclusive(err) && ctx.Err() == nil:
		return s.inTurn(ctx, q, r, err)
	}
	s.logger(s.log).Warn("the new process of the plugin is not used; the old one stays in use", "pid", r.PID(), "error", err)
	q.done <- err
	return r, false
}

var errAlone = errors.New("only one process at a time may use its volume")

// beside starts another process beside r and lets calls through to it. After an error r is
// still in use.
func (s *supervisor[T]) beside(ctx context.Context, r *running[T]) (*running[T], error) {
	next, err := s.raise(ctx, s.launch)
	if err != nil {
		return nil, err
	}
	replaying, cancel := context.WithTimeout(ctx, s.bounds.ReplayTimeout)
	defer cancel()
	if s.carry != nil {
		err = s.carry.lay(replaying, next)
		if err == nil {
			err = s.carry.enroll(replaying, next)
		}
		if err == nil && next.ended() {
			s.carry.drop(next)
			err = errs.New(errs.RPCFail, "", "the new process ended: %s", next.Ending())
		}
	} else {
		err = s.replayInto(replaying, r, next)
	}
	if err != nil {
		return nil, s.giveUp(ctx, next, StageReplay, err)
	}
	s.logger(s.log).Info("plugin runs in a new process", "pid", next.PID(), "old", r.PID())
	s.use(next)
	s.open(next)
	return next, nil
}

// replayInto resyncs next. r serves until Replay makes its first call to next. From then on
// Replay keeps other callers out, and any call that comes all the same waits. On success r is
// shut.
func (s *supervisor[T]) replayInto(ctx context.Context, r, next *running[T]) error {
	if s.replay == nil {
		s.close(r, true)
		return nil
	}
	var once sync.Once
	begun := false
	first := func() {
		once.Do(func() {
			begun = true
			s.close(r, true)
		})
	}
	err := s.replay(ctx, s.announce(next.Object(), first))
	if err == nil && !begun {
		// Replay had nothing to send, which may have changed since. Replay once again, and let
		// no call in before it: calls fail, as at a restart, since a waiting caller may hold the
		// lock that Replay needs.
		s.close(r, false)
		err = s.replay(ctx, next.Object())
	}
	if err == nil && next.ended() {
		err = errs.New(errs.RPCFail, "", "the new process ended: %s", next.Ending())
	}
	if err != nil {
		s.open(r)
	}
	return err
}

// inTurn stops r and then starts another process, because the two cannot run side by side. If
// the start fails, inTurn starts the program that r ran again, if it can.
func (s *supervisor[T]) inTurn(ctx context.Context, q *reloading[T], r *running[T], why error) (*running[T], bool) {
	s.logger(s.log).Warn("the new process of the plugin cannot run beside the old one, which is stopped first", "error", why)
	var again func(context.Context, *slog.Logger) (process[T], error)
	if p, ok := r.process.(interface {
		Again() (start func(context.Context, *slog.Logger) (process[T], error), forget func())
	}); ok {
		var forget func()
		if again, forget = p.Again(); again != nil {
			defer forget()
		}
	}
	s.current.CompareAndSwap(r, nil)
	s.set(plugin.Health{State: plugin.StateRestarting, Reason: "it is being replaced by another program, which cannot run beside it"}, func(in *Instance) { in.PID = 0 })
	s.retire(ctx, r)
	next, err := s.bringUp(s.ctx, true)
	if err == nil {
		s.use(next)
		q.done <- nil
		return next, true
	}
	if again != nil {
		back, failed := s.raise(s.ctx, again)
		if failed == nil {
			back, failed = s.resync(s.ctx, back, true)
		}
		if failed == nil {
			s.use(back)
			q.done <- errs.WithHint(err, "the program that ran before was started again")
			return back, false
		}
		err = errors.Join(err, failed)
	}
	s.set(plugin.Health{State: plugin.StateRestarting, Reason: err.Error()}, nil)
	q.done <- errs.WithHint(err, "the old process had to be stopped first; the new one is tried again")
	return nil, false
}

// retire lets a process that gets no new calls finish, and stops it.
func (s *supervisor[T]) retire(ctx context.Context, r *running[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.bounds.DrainTimeout)
	defer cancel()
	ctx, leave := s.within(ctx)
	defer leave()
	var err error
	if s.carry != nil {
		err = s.carry.retire(ctx, r)
	}
	if err != nil && !r.ended() {
		s.logger(s.log).Warn("the old process of the plugin did not finish its operations in time", "pid", r.PID(), "error", err)
	}
	if err := s.end(context.WithoutCancel(ctx), r); err != nil {
		s.logger(s.log).Warn("the old process of the plugin did not stop in order", "pid", r.PID(), "error", err)
	}
}

// exclusive reports whether a start failed because another process holds a resource. Only the
// text of the error crosses the connection.
func exclusive(err error) bool {
	var at *OpenError
	if !errors.As(err, &at) || at.Stage != StageStart && at.Stage != StageReplay {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "already in use") || strings.Contains(text, "resource busy")
}
