package store

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// finishTimeout bounds the calls that end a task, also when the node is being stopped.
const finishTimeout = 5 * time.Second

// executor carries out the copies and moves that the master gives to a node.
type executor struct {
	cfg     NodeConfig
	session *Session
	master  Master
	engine  engine
	deps    Deps
	metrics *taskMetrics
	wg      sync.WaitGroup
	idle    chan struct{} // one entry for each worker that has nothing to do

	mu   sync.Mutex
	busy map[object]struct{} // that this node is copying
}

// object names an object of all tenants'.
type object struct {
	tenant model.Tenant
	key    model.Key
}

func newExecutor(cfg NodeConfig, s *Session, deps Deps, m *taskMetrics) *executor {
	x := &executor{cfg: cfg, session: s, master: deps.Master, engine: deps.Engine, deps: deps, metrics: m, idle: make(chan struct{}, cfg.TaskWorkers), busy: map[object]struct{}{}}
	for range cfg.TaskWorkers {
		x.idle <- struct{}{}
	}
	return x
}

// run fetches as many tasks as there are idle workers, until the context ends; then tasks
// in progress are given up and reported as failed.
func (x *executor) run(ctx context.Context) {
	defer x.wg.Wait()
	if x.cfg.TaskWorkers == 0 {
		return
	}
	ticker := time.NewTicker(x.cfg.TaskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			x.fetch(ctx)
		}
	}
}

func (x *executor) fetch(ctx context.Context) {
	n := len(x.idle)
	if n == 0 || x.session.Health().Down {
		return
	}
	caller := model.Caller{Client: x.session.id}
	call, cancel := context.WithTimeout(ctx, x.cfg.RPCTimeout)
	defer cancel()
	got, err := ask(call, x.session, "FetchTasks", func(ctx context.Context) ([]model.Assignment, error) {
		return x.master.FetchTasks(ctx, caller, n)
	})
	if err != nil {
		return // The session tells of a master that does not answer.
	}
	for _, a := range got[:min(n, len(got))] {
		<-x.idle
		x.wg.Go(func() {
			defer func() { x.idle <- struct{}{} }()
			x.do(ctx, &a)
		})
	}
}

// do carries out one task and reports how it ended.
func (x *executor) do(ctx context.Context, a *model.Assignment) {
	work, cancel := context.WithTimeout(ctx, x.cfg.TaskTimeout)
	defer cancel()
	err := x.attempts(work, a)
	status, message := model.TaskSuccess, ""
	if err != nil {
		status, message = model.TaskFailed, err.Error()
		x.deps.Log.Warn("a "+a.Spec.Kind.String()+" failed", "task", a.ID, "key", a.Spec.Key, "error", err)
		x.metrics.failed.Inc()
	} else {
		x.metrics.done.Inc()
	}
	caller := model.Caller{Client: x.session.id, Tenant: a.Spec.Tenant}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	err = asked(end, x.session, "MarkTaskToComplete", func(ctx context.Context) error {
		return x.master.CompleteTask(ctx, caller, a.ID, status, message)
	})
	if err != nil {
		x.deps.Log.Warn("the end of a task could not be reported, the master ends it by its timeout", "task", a.ID, "error", err)
	}
}

// attempts tries again, with growing pauses, while there is no room for the copies.
func (x *executor) attempts(ctx context.Context, a *model.Assignment) error {
	for n := uint32(0); ; n++ {
		err := x.copy(ctx, a)
		if !errs.Is(err, errs.NoAvailableHandle) || n >= a.MaxRetries {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond * time.Duration(n+1)):
		case <-ctx.Done():
			return err
		}
	}
}

// enter claims an object for one copy at a time, to be left with leave. The master names a
// copy by its client and key. It may have given one up of which the node does not know yet,
// as when the segment went, and have begun another of a value that was put since: the end of
// the first would make the second's targets readable before they are written, and giving it
// up would free them while they are.
func (x *executor) enter(o object) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, busy := x.busy[o]; busy {
		return false
	}
	x.busy[o] = struct{}{}
	return true
}

func (x *executor) leave(o object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.busy, o)
}
