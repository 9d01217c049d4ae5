package node

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// finishTimeout bounds the calls that end a task, also when the node is being stopped.
const finishTimeout = 5 * time.Second

// taskRunner carries out the copies and moves that the master assigns to a node.
type taskRunner struct {
	*Node
	running sync.WaitGroup
	idle    chan struct{} // one entry for each idle worker

	done, failed, bytes, mismatches prometheus.Counter

	claims sync.Mutex
	busy   map[object]struct{} // that this node is copying
}

// object names an object of any tenant.
type object struct {
	tenant model.Tenant
	key    model.Key
}

func newTaskRunner(n *Node, r *promreg.Registry) *taskRunner {
	t := &taskRunner{
		Node: n, idle: make(chan struct{}, n.cfg.TaskWorkers), busy: map[object]struct{}{},
		done:       r.Counter("mooncake_node_tasks_done_total", "Copies and moves carried out for the master."),
		failed:     r.Counter("mooncake_node_tasks_failed_total", "Copies and moves that failed."),
		bytes:      r.Counter("mooncake_node_task_bytes_total", "Bytes read for copies and moves."),
		mismatches: r.Counter("mooncake_node_task_checksum_mismatches_total", "Copies and moves given up because the source had wrong bytes."),
	}
	for range n.cfg.TaskWorkers {
		t.idle <- struct{}{}
	}
	return t
}

// run fetches as many tasks as there are idle workers, until the context ends. Then tasks in progress
// are given up and reported as failed.
func (t *taskRunner) run(ctx context.Context) {
	defer t.running.Wait()
	if t.cfg.TaskWorkers == 0 {
		return
	}
	ticker := time.NewTicker(t.cfg.TaskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.fetch(ctx)
		}
	}
}

func (t *taskRunner) fetch(ctx context.Context) {
	n := len(t.idle)
	if n == 0 || t.session.Health().Down {
		return
	}
	call, cancel := context.WithTimeout(ctx, t.cfg.RPCTimeout)
	defer cancel()
	got, err := session.Ask(call, t.session, "FetchTasks", func(ctx context.Context) ([]model.Assignment, error) {
		return t.master.FetchTasks(ctx, model.Caller{Client: t.session.ID()}, n)
	})
	if err != nil {
		return // The session logs that the master does not answer.
	}
	for _, a := range got[:min(n, len(got))] {
		<-t.idle
		t.running.Go(func() {
			defer func() { t.idle <- struct{}{} }()
			t.do(ctx, &a)
		})
	}
}

// do carries out one task and reports its result.
func (t *taskRunner) do(ctx context.Context, a *model.Assignment) {
	work, cancel := context.WithTimeout(ctx, t.cfg.TaskTimeout)
	defer cancel()
	err := t.retry(work, a)
	status, message := model.TaskSuccess, ""
	if err != nil {
		status, message = model.TaskFailed, err.Error()
		t.deps.Log.Warn("a "+a.Spec.Kind.String()+" failed", "task", a.ID, "key", a.Spec.Key, "error", err)
		t.failed.Inc()
	} else {
		t.done.Inc()
	}
	caller := model.Caller{Client: t.session.ID(), Tenant: a.Spec.Tenant}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	err = session.Do(end, t.session, "MarkTaskToComplete", func(ctx context.Context) error {
		return t.master.CompleteTask(ctx, caller, a.ID, status, message)
	})
	if err != nil {
		t.deps.Log.Warn("the end of a task could not be reported, the master ends it by its timeout", "task", a.ID, "error", err)
	}
}

// retry repeats a task, with growing pauses, while there is no space for the new replicas.
func (t *taskRunner) retry(ctx context.Context, a *model.Assignment) error {
	for n := uint32(0); ; n++ {
		err := t.copy(ctx, a)
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

// claim reserves an object for one copy at a time, until unclaim. The master names a copy by its
// client and key. It may have given up a copy without the node's knowledge, for instance because the
// segment went, and have started another one of a later value. Then the end of the first copy would
// make the targets of the second readable before they are written, and revoking the first would free
// them while they are.
func (t *taskRunner) claim(o object) bool {
	t.claims.Lock()
	defer t.claims.Unlock()
	if _, busy := t.busy[o]; busy {
		return false
	}
	t.busy[o] = struct{}{}
	return true
}

func (t *taskRunner) unclaim(o object) {
	t.claims.Lock()
	defer t.claims.Unlock()
	delete(t.busy, o)
}
