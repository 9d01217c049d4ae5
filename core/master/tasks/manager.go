// Package tasks keeps the copies and moves that the master gives to clients to carry out.
//
// A task waits (pending) until the client that owns its source fetches it, is in progress
// (processing) until that client reports how it went, and is then remembered for a while. How
// many of each there may be, and how long each may take, is bounded: a client that never asks, or
// never answers, fails its tasks and does not block those of other clients.
//
// The manager knows nothing of objects and segments: the creator of a task has checked that it
// makes sense, and the client that carries it out finds what has changed since.
package tasks

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Stats counts tasks: how many there are now, and since the start. TimedOut is a part of
// Failed.
type Stats struct {
	Pending, Processing, Finished        int
	Created, Succeeded, Failed, TimedOut uint64
}

// Manager holds the tasks. It is safe for concurrent use. The times that it is given
// have a monotonic reading and never go back.
type Manager struct {
	cfg Config

	mu       sync.Mutex
	tasks    map[model.TaskID]*task
	clients  map[model.ClientID]*queue
	finished list.List // of *task, oldest first
	stats    Stats
	ended    func(model.Task)
}

// queue is what one client has to do. A client without work has none.
type queue struct{ pending, processing list.List }

type task struct {
	model.Task
	in *list.Element // its place in the list that its status says
}

// New returns an empty manager.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, tasks: map[model.TaskID]*task{}, clients: map[model.ClientID]*queue{}, ended: func(model.Task) {}}
}

// Listen registers f. The goroutine that ends a task then calls f once, after the end and without a
// lock. There is one listener at a time; call Listen before the first task.
func (m *Manager) Listen(f func(model.Task)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = f
}

// Create adds a task for a client. InvalidParams, TaskPendingLimitExceeded.
func (m *Manager) Create(spec model.TaskSpec, assigned model.ClientID, now time.Time) (model.TaskID, error) {
	if err := Validate(spec); err != nil {
		return model.TaskID{}, err
	}
	spec.Targets = slices.Clone(spec.Targets)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stats.Pending >= m.cfg.MaxPending {
		return model.TaskID{}, errs.WithHint(
			errs.New(errs.TaskPendingLimitExceeded, "task: create", "%d tasks wait already, the most there may be", m.stats.Pending),
			"try again when clients have fetched some, or raise max_total_pending_tasks")
	}
	t := &task{Task: model.Task{ID: model.NewUUID(), Spec: spec, Created: now, Updated: now, Assigned: assigned}}
	m.tasks[t.ID] = t
	q := m.clients[assigned]
	if q == nil {
		q = &queue{}
		m.clients[assigned] = q
	}
	t.in = q.pending.PushBack(t)
	m.stats.Pending++
	m.stats.Created++
	return t.ID, nil
}

// Query returns a task, or TaskNotFound.
func (m *Manager) Query(id model.TaskID) (model.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil {
		return model.Task{}, m.unknown("task: query", id)
	}
	return t.snapshot(), nil
}

// Fetch gives a client up to n of the tasks that wait for it, the oldest first; fewer when as
// many are in progress as may be.
func (m *Manager) Fetch(client model.ClientID, n int, now time.Time) []model.Assignment {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.clients[client]
	if q == nil {
		return nil
	}
	n = min(n, q.pending.Len(), m.cfg.MaxProcessing-m.stats.Processing)
	if n <= 0 {
		return nil
	}
	out := make([]model.Assignment, 0, n)
	for range n {
		t := valueOf(q.pending.Front())
		q.pending.Remove(t.in)
		t.in = q.processing.PushBack(t)
		t.Status, t.Updated = model.TaskProcessing, now
		s := t.snapshot()
		out = append(out, model.Assignment{ID: s.ID, Spec: s.Spec, Created: s.Created, MaxRetries: m.cfg.MaxRetries})
	}
	m.stats.Pending -= n
	m.stats.Processing += n
	return out
}

// Stats returns the counts.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

func (m *Manager) unknown(op string, id model.TaskID) error {
	return errs.New(errs.TaskNotFound, op, "no task %s; of those that ended the last %d are remembered", id, m.cfg.MaxFinished)
}

// snapshot copies what the caller may keep and change.
func (t *task) snapshot() model.Task {
	s := t.Task
	s.Spec.Targets = slices.Clone(s.Spec.Targets)
	return s
}

func valueOf(e *list.Element) *task { return e.Value.(*task) } //nolint:errcheck,forcetypeassert // the lists hold nothing else
