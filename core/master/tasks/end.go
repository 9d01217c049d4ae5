package tasks

import (
	"container/list"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxMessage is the most bytes of a client's message that are kept.
const MaxMessage = 1 << 10

// The messages of tasks that no client ended.
const (
	pendingTimeout    = "pending timeout"
	processingTimeout = "processing timeout"
	clientExpired     = "the client that was to carry it out expired"
)

// Complete ends a task that client fetched, as TaskSuccess or TaskFailed with a message. Repeating
// the call with the same result succeeds. Errors are InvalidParams for another status,
// TaskNotFound, IllegalClient, and UnavailableInCurrentStatus if the task was not fetched or has
// ended otherwise, for example because it took too long.
func (m *Manager) Complete(client model.ClientID, id model.TaskID, status model.TaskStatus, message string, now time.Time) error {
	const op = "task: complete"
	if status != model.TaskSuccess && status != model.TaskFailed {
		return errs.New(errs.InvalidParams, op, "%s does not end a task; report SUCCESS or FAILED", status)
	}
	message = clip(message)
	m.mu.Lock()
	t := m.tasks[id]
	switch {
	case t == nil:
		defer m.mu.Unlock()
		return m.unknown(op, id)
	case t.Assigned != client:
		defer m.mu.Unlock()
		return errs.New(errs.IllegalClient, op, "task %s belongs to client %s, not to %s", id, t.Assigned, client)
	case t.Status == status:
		m.mu.Unlock()
		return nil
	case t.Status != model.TaskProcessing:
		defer m.mu.Unlock()
		return errs.New(errs.UnavailableInCurrentStatus, op, "task %s is %s, not PROCESSING (%s)", id, t.Status, t.why())
	}
	if status == model.TaskSuccess {
		message = ""
	}
	s := m.end(t, status, message, now)
	tell := m.ended
	m.mu.Unlock()
	tell(s)
	return nil
}

// Drop fails the unfinished tasks of an expired client and returns their number.
func (m *Manager) Drop(client model.ClientID, now time.Time) int {
	m.mu.Lock()
	var gone []model.Task
	if q := m.clients[client]; q != nil {
		for _, l := range []*list.List{&q.processing, &q.pending} {
			for l.Len() > 0 {
				gone = append(gone, m.end(valueOf(l.Front()), model.TaskFailed, clientExpired, now))
			}
		}
	}
	m.unlockAndTell(gone)
	return len(gone)
}

// Tick fails the tasks that waited or took too long and returns their number.
func (m *Manager) Tick(now time.Time) int {
	m.mu.Lock()
	var gone []model.Task
	expire := func(l *list.List, timeout time.Duration, message string) {
		// The list is in the order of Updated.
		for timeout > 0 && l.Len() > 0 && now.Sub(valueOf(l.Front()).Updated) >= timeout {
			gone = append(gone, m.end(valueOf(l.Front()), model.TaskFailed, message, now))
		}
	}
	for _, q := range m.clients {
		expire(&q.pending, m.cfg.PendingTimeout, pendingTimeout)
		expire(&q.processing, m.cfg.ProcessingTimeout, processingTimeout)
	}
	m.stats.TimedOut += uint64(len(gone))
	m.unlockAndTell(gone)
	return len(gone)
}

// end moves an unfinished task to the finished ones. The caller holds the lock.
func (m *Manager) end(t *task, status model.TaskStatus, message string, now time.Time) model.Task {
	q := m.clients[t.Assigned]
	if t.Status == model.TaskPending {
		q.pending.Remove(t.in)
		m.stats.Pending--
	} else {
		q.processing.Remove(t.in)
		m.stats.Processing--
	}
	if q.pending.Len()+q.processing.Len() == 0 {
		delete(m.clients, t.Assigned)
	}
	t.Status, t.Message, t.Updated = status, message, now
	if status == model.TaskSuccess {
		m.stats.Succeeded++
	} else {
		m.stats.Failed++
	}
	t.in = m.finished.PushBack(t)
	for m.finished.Len() > m.cfg.MaxFinished {
		oldest := valueOf(m.finished.Front())
		m.finished.Remove(oldest.in)
		delete(m.tasks, oldest.ID)
	}
	m.stats.Finished = m.finished.Len()
	return t.snapshot()
}

func (m *Manager) unlockAndTell(gone []model.Task) {
	tell := m.ended
	m.mu.Unlock()
	for _, t := range gone {
		tell(t)
	}
}

func (t *task) why() string {
	switch {
	case t.Status == model.TaskPending:
		return "fetch it first"
	case t.Message == "":
		return "it ended before"
	}
	return t.Message
}

// clip cuts a message to MaxMessage bytes of UTF-8.
func clip(s string) string {
	if len(s) > MaxMessage {
		s = s[:MaxMessage]
		for i := 0; i < utf8.UTFMax && !utf8.ValidString(s); i++ {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
