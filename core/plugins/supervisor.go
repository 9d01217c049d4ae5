package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// stopTimeout bounds a plugin's Stop where the context does not.
	stopTimeout = 10 * time.Second
	// lastWords bounds the wait for the end of a process whose connection broke.
	lastWords = 3 * time.Second
)

// process is a plugin process after the handshake. Package launch makes the real ones.
type process[T any] interface {
	// Configure creates the object on the other side.
	Configure(ctx context.Context) error
	// Object is the plugin itself. It fails with RPCFail once the process is gone.
	Object() T
	PID() int
	Done() <-chan struct{}
	// Ending explains the end, once Done is closed.
	Ending() string
	Kill()
	Close(ctx context.Context) error
}

// supervisor keeps a plugin process running between Start and Stop. Safe for concurrent
// use.
type supervisor[T plugin.Component] struct {
	*status
	id      plugin.ID
	bounds  Supervision
	log     *slog.Logger
	launch  func(ctx context.Context, log *slog.Logger) (process[T], error)
	replay  func(ctx context.Context, object T) error // nil for none
	stopped func()

	// current is the process that calls go to, nil while there is none.
	current atomic.Pointer[running[T]]

	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	loop   sync.WaitGroup

	life     sync.Mutex // held by Start and by the end of Stop
	begun    bool
	stopOnce sync.Once
	stopErr  error
}

// running is one process while it is in use.
type running[T any] struct {
	process[T]
	timeouts atomic.Int32 // in a row
	health   chan plugin.Health
}

// Start implements plugin.Component: it starts the first process. A failure is final;
// what was started is gone when it returns.
func (s *supervisor[T]) Start(ctx context.Context, host plugin.Host) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.begun || s.ctx.Err() != nil {
		return &OpenError{ID: s.id, Stage: StageStart, Err: errs.New(errs.UnavailableInCurrentStatus, "", "start comes once, and not after stop")}
	}
	s.begun = true
	s.attach(host)
	s.set(plugin.Health{State: plugin.StateStarting}, nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() //nolint:contextcheck // Stop ends a start that is under way.
	r, err := s.bringUp(ctx, false)
	if err != nil {
		s.set(plugin.Health{State: plugin.StateFailed, Reason: err.Error()}, nil)
		return err
	}
	s.use(r)
	s.loop.Go(func() { s.supervise(r) })
	return nil
}

// bringUp makes a process that is ready for calls.
func (s *supervisor[T]) bringUp(ctx context.Context, again bool) (*running[T], error) {
	p, err := s.launch(ctx, s.logger(s.log))
	if err != nil {
		return nil, &OpenError{ID: s.id, Stage: StageLaunch, Err: err}
	}
	r := &running[T]{process: p, health: make(chan plugin.Health, 1)}
	starting, cancel := context.WithTimeout(ctx, s.bounds.StartTimeout)
	defer cancel()
	if err := p.Configure(starting); err != nil {
		return nil, s.giveUp(ctx, p, StageConfig, err)
	}
	if err := p.Object().Start(starting, processHost[T]{s, r}); err != nil {
		return nil, s.giveUp(ctx, p, StageStart, err)
	}
	if again && s.replay != nil {
		replaying, cancel := context.WithTimeout(ctx, s.bounds.ReplayTimeout)
		defer cancel()
		if err := s.replay(replaying, p.Object()); err != nil {
			return nil, s.giveUp(ctx, p, StageReplay, err)
		}
	}
	return r, nil
}

// giveUp ends a process that did not become ready and explains why.
func (s *supervisor[T]) giveUp(ctx context.Context, p process[T], stage Stage, err error) error {
	if errs.Is(err, errs.RPCFail) {
		select {
		case <-p.Done():
			err = errs.WithHint(err, "%s", p.Ending())
		case <-time.After(lastWords):
		case <-ctx.Done():
		}
	}
	p.Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(&OpenError{ID: s.id, Stage: stage, Err: err}, p.Close(ctx))
}

// use lets calls through to a process.
func (s *supervisor[T]) use(r *running[T]) {
	s.set(plugin.Health{State: plugin.StateOK}, func(in *Instance) { in.PID = r.PID() })
	s.current.Store(r)
	s.takeHealth(r)
}

// supervise restarts the process until Stop or until the budget is spent.
func (s *supervisor[T]) supervise(r *running[T]) {
	b := budget{max: s.bounds.MaxRestarts, window: s.bounds.Window}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-r.Done():
		}
		s.current.Store(nil)
		why := r.Ending()
		s.closeProcess(s.ctx, r)
		if r = s.restart(&b, why); r == nil {
			return
		}
		s.use(r)
	}
}

// restart tries until a process is ready. It returns nil when it is time to end.
func (s *supervisor[T]) restart(b *budget, why string) *running[T] {
	for {
		n, ok := b.take(time.Now())
		if !ok {
			s.logger(s.log).Error("plugin failed for good: it ended too often", "plugin", s.id.String(), "restarts", b.max, "within", b.window, "reason", why)
			why = fmt.Sprintf("it was started again %d times within %s and ended each time: %s", b.max, b.window, why)
			s.set(plugin.Health{State: plugin.StateFailed, Reason: why}, func(in *Instance) { in.PID = 0 })
			return nil
		}
		wait := pause(n, s.bounds.BackoffMin, s.bounds.BackoffMax)
		s.logger(s.log).Warn("plugin ended and will be started again", "plugin", s.id.String(), "attempt", n, "pause", wait, "reason", why)
		s.set(plugin.Health{State: plugin.StateRestarting, Reason: why}, func(in *Instance) { in.PID, in.Restarts = 0, in.Restarts+1 })
		select {
		case <-s.ctx.Done():
			return nil
		case <-time.After(wait):
		}
		r, err := s.bringUp(s.ctx, true)
		if err == nil {
			s.logger(s.log).Info("plugin is running again", "plugin", s.id.String(), "pid", r.PID())
			return r
		}
		if s.ctx.Err() != nil {
			return nil
		}
		why = err.Error()
	}
}

func (s *supervisor[T]) closeProcess(ctx context.Context, r *running[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		s.logger(s.log).Error("plugin process cannot be ended", "plugin", s.id.String(), "pid", r.PID(), "error", err)
	}
}

// Stop implements plugin.Component.
func (s *supervisor[T]) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *supervisor[T]) stop(ctx context.Context) error {
	s.cancel()
	s.life.Lock()
	defer s.life.Unlock()
	s.loop.Wait()
	var err error
	if r := s.current.Swap(nil); r != nil {
		s.set(plugin.Health{State: plugin.StateStopping}, nil)
		bounded, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		// A process that cannot answer any more has nothing to drain.
		if err = r.Object().Stop(bounded); errs.Is(err, errs.RPCFail) {
			err = nil
		}
		err = errors.Join(err, r.Close(bounded))
	}
	s.set(plugin.Health{State: plugin.StateStopped}, func(in *Instance) { in.PID = 0 })
	s.stopped()
	return err
}
