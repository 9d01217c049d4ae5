package pluginhost

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
	// stopTimeout is the default bound for the end of a process.
	stopTimeout = 10 * time.Second
	// endGrace bounds the wait for the end of a process whose connection broke.
	endGrace = 3 * time.Second
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

// supervisor keeps a plugin process running between Start and Stop, and replaces it on Reload.
// It is safe for concurrent use.
type supervisor[T plugin.Component] struct {
	*status
	id      plugin.ID
	bounds  Supervision
	log     *slog.Logger
	launch  func(ctx context.Context, log *slog.Logger) (process[T], error)
	replay  func(ctx context.Context, object T) error // nil for none
	stopped func()
	// announce wraps an object that is being resynced beside the one in use. first is called
	// before the first call of the object.
	announce func(object T, first func()) T
	// carry completes the operations in flight of the processes of a transport or a tier, nil for
	// other kinds.
	carry carrier[T]
	// alone says that no process is started while another one runs.
	alone bool

	// current is the process that calls go to, nil while there is none.
	current atomic.Pointer[running[T]]
	// swapping is closed when a change of processes that calls wait for is over; nil while
	// there is none.
	swapping atomic.Pointer[chan struct{}]

	ctx      context.Context // ends with Stop
	cancel   context.CancelFunc
	loop     sync.WaitGroup
	watchers sync.WaitGroup // of each process, until it is gone
	left     *running[T]    // the process that the loop left, nil for none
	looping  atomic.Bool
	reloads  chan *reloading[T]

	lifecycle sync.Mutex // held by Start and by the end of Stop
	begun     bool
	stopOnce  sync.Once
	stopErr   error
}

func newSupervisor[T plugin.Component](id plugin.ID, home string, bounds Supervision, log *slog.Logger) *supervisor[T] {
	s := &supervisor[T]{
		status: newStatus(id, home), id: id, bounds: bounds.withDefaults(), log: log, stopped: func() {},
		reloads: make(chan *reloading[T]), announce: func(object T, first func()) T { first(); return object },
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// carrier is what a kind needs beyond calls. Each process is one generation of the carrier.
type carrier[T any] interface {
	begin(r *running[T])
	lay(ctx context.Context, r *running[T]) error
	enroll(ctx context.Context, r *running[T]) error
	use(r *running[T])
	drop(r *running[T])
	lost(r *running[T])
	ended(r *running[T])
	retire(ctx context.Context, r *running[T]) error
	failed()
	close()
}

// Start implements plugin.Component: it starts the first process. A failure is final: the
// process is gone when Start returns.
func (s *supervisor[T]) Start(ctx context.Context, host plugin.Host) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.begun || s.ctx.Err() != nil {
		return &OpenError{ID: s.id, Stage: StageStart, Err: errs.New(errs.UnavailableInCurrentStatus, "", "start may be called only once, and not after stop")}
	}
	s.begun = true
	s.attach(host)
	s.set(plugin.Health{State: plugin.StateStarting}, nil)
	ctx, cancel := s.within(ctx)
	defer cancel()
	r, err := s.bringUp(ctx, false)
	if err != nil {
		s.set(plugin.Health{State: plugin.StateFailed, Reason: err.Error()}, nil)
		return err
	}
	s.use(r)
	s.looping.Store(true)
	s.loop.Go(func() { s.supervise(r) })
	return nil
}

// within returns a context that also ends with the supervisor.
func (s *supervisor[T]) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// bringUp makes a process that is ready for calls.
func (s *supervisor[T]) bringUp(ctx context.Context, again bool) (*running[T], error) {
	r, err := s.raise(ctx, s.launch)
	if err != nil {
		return nil, err
	}
	return s.resync(ctx, r, again)
}

// raise makes a process that is started and has no state yet.
func (s *supervisor[T]) raise(ctx context.Context, launch func(context.Context, *slog.Logger) (process[T], error)) (*running[T], error) {
	p, err := launch(ctx, s.logger(s.log))
	if err != nil {
		return nil, &OpenError{ID: s.id, Stage: StageLaunch, Err: err}
	}
	r := s.watch(p)
	starting, cancel := context.WithTimeout(ctx, s.bounds.StartTimeout)
	defer cancel()
	if err := p.Configure(starting); err != nil {
		return nil, s.giveUp(ctx, r, StageConfig, err)
	}
	if err := p.Object().Start(starting, processHost[T]{s, r}); err != nil {
		return nil, s.giveUp(ctx, r, StageStart, err)
	}
	if s.carry != nil {
		s.carry.begin(r)
		if r.ended() { // It may have ended before its generation began.
			s.over(r)
		}
	}
	return r, nil
}

// resync gives a process the state that it needs, while no other process takes calls.
func (s *supervisor[T]) resync(ctx context.Context, r *running[T], again bool) (*running[T], error) {
	ctx, cancel := context.WithTimeout(ctx, s.bounds.ReplayTimeout)
	defer cancel()
	var err error
	switch {
	case s.carry != nil:
		err = s.carry.enroll(ctx, r)
	case again && s.replay != nil:
		err = s.replay(ctx, r.Object())
	}
	if err != nil {
		return nil, s.giveUp(ctx, r, StageReplay, err)
	}
	return r, nil
}

// giveUp ends a process that did not become ready and explains why.
func (s *supervisor[T]) giveUp(ctx context.Context, r *running[T], stage Stage, err error) error {
	if errs.Is(err, errs.RPCFail) {
		select {
		case <-r.Done():
			err = errs.WithHint(err, "%s", r.Ending())
		case <-time.After(endGrace):
		case <-ctx.Done():
		}
	}
	r.Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(&OpenError{ID: s.id, Stage: stage, Err: err}, r.Close(ctx))
}

// use lets calls through to a process.
func (s *supervisor[T]) use(r *running[T]) {
	version, sum := r.about()
	s.setIf(func() bool {
		s.current.Store(r)
		if s.carry != nil {
			s.carry.use(r)
		}
		return true
	}, plugin.Health{State: plugin.StateOK}, func(in *Instance) { in.PID, in.Version, in.SHA256 = r.PID(), version, sum })
	s.takeHealth(r)
	if r.ended() { // It ended before it was in use, so collect did not take it out of use.
		s.current.CompareAndSwap(r, nil)
	}
}

// supervise restarts the process until Stop. Once the budget is spent, it only serves reloads.
// All changes of the process happen in this loop.
func (s *supervisor[T]) supervise(r *running[T]) {
	b := budget{max: s.bounds.MaxRestarts, window: s.bounds.Window}
	var pausing <-chan time.Time
	for {
		var gone <-chan struct{}
		if r != nil {
			gone = r.gone
		}
		select {
		case <-s.ctx.Done():
			s.left = r
			return
		case q := <-s.reloads:
			var changed bool
			if r, changed = s.reload(q, r); changed {
				b.spent = nil
			}
			if r != nil {
				pausing = nil
			} else if pausing == nil && !s.isFailed() {
				pausing = s.pauseFor(&b, s.instance().Reason)
			}
		case <-gone:
			why := r.Ending()
			s.closeProcess(s.ctx, r)
			r, pausing = nil, s.pauseFor(&b, why)
		case <-pausing:
			var err error
			if r, err = s.bringUp(s.ctx, true); err == nil {
				s.logger(s.log).Info("plugin is running again", "pid", r.PID())
				pausing = nil
				s.use(r)
				continue
			}
			if s.ctx.Err() != nil {
				return
			}
			r, pausing = nil, s.pauseFor(&b, err.Error())
		}
	}
}

// pauseFor returns a channel that fires when it is time for the next attempt, nil if there will
// be none.
func (s *supervisor[T]) pauseFor(b *budget, why string) <-chan time.Time {
	n, ok := b.take(time.Now())
	if !ok {
		s.logger(s.log).Error("plugin failed for good: it ended too often", "restarts", b.max, "within", b.window, "reason", why)
		why = fmt.Sprintf("it was started again %d times within %s and ended each time: %s", b.max, b.window, why)
		s.set(plugin.Health{State: plugin.StateFailed, Reason: why}, func(in *Instance) { in.PID = 0 })
		if s.carry != nil {
			s.carry.failed()
		}
		return nil
	}
	wait := pause(n, s.bounds.BackoffMin, s.bounds.BackoffMax)
	s.logger(s.log).Warn("plugin ended and will be started again", "attempt", n, "pause", wait, "reason", why)
	s.set(plugin.Health{State: plugin.StateRestarting, Reason: why}, func(in *Instance) { in.PID, in.Restarts = 0, in.Restarts+1 })
	return time.After(wait)
}

// instance is the state of the plugin, with the figures of the process in use.
func (s *supervisor[T]) instance() Instance {
	in := s.status.instance()
	if r := s.current.Load(); r != nil {
		if o, ok := any(r.Object()).(interface{ Figures() map[string]string }); ok {
			in.Figures = o.Figures()
		}
		if l, ok := any(r.process).(interface {
			Limits() string
			Sandbox() string
		}); ok {
			in.figure("limits", l.Limits())
			in.figure("sandbox", l.Sandbox())
		}
	}
	return in
}

func (s *supervisor[T]) isFailed() bool { return s.status.instance().State == plugin.StateFailed }

func (s *supervisor[T]) closeProcess(ctx context.Context, r *running[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		s.logger(s.log).Error("plugin process cannot be ended", "pid", r.PID(), "error", err)
	}
}

// Stop implements plugin.Component.
func (s *supervisor[T]) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *supervisor[T]) stop(ctx context.Context) error {
	s.cancel()
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.loop.Wait()
	var err error
	if r := s.current.Swap(nil); r != nil {
		s.set(plugin.Health{State: plugin.StateStopping}, nil)
		err = s.end(ctx, r)
	} else if s.left != nil { // It ended just before Stop and has not been closed.
		s.closeProcess(ctx, s.left)
	}
	if !endWithin(&s.watchers, s.bounds.StopTimeout) {
		err = errors.Join(err, errs.WithHint(errs.New(errs.Internal, s.id.String()+": stop", "its process does not end although it was killed"),
			"look at TracerPid and State in /proc/PID/status; memory that it was given stays in use until it has ended"))
	}
	if s.carry != nil {
		s.carry.close()
	}
	s.set(plugin.Health{State: plugin.StateStopped}, func(in *Instance) { in.PID = 0 })
	s.stopped()
	return err
}

// endWithin waits for goroutines. It returns false if they take longer than limit.
func endWithin(group *sync.WaitGroup, limit time.Duration) bool {
	over := make(chan struct{})
	go func() { group.Wait(); close(over) }()
	select {
	case <-over:
		return true
	case <-time.After(limit):
		return false
	}
}

// end stops a process that gets no more calls.
func (s *supervisor[T]) end(ctx context.Context, r *running[T]) error {
	ctx, cancel := context.WithTimeout(ctx, s.bounds.StopTimeout)
	defer cancel()
	// A process that cannot answer any more has nothing to drain.
	err := r.Object().Stop(ctx)
	if errs.Is(err, errs.RPCFail) {
		err = nil
	}
	return errors.Join(err, r.Close(ctx))
}
