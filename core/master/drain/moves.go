package drain

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// meet decides what becomes of a unit that the walk has come to. False is that no task can
// be created now, and the walk waits here.
func (j *job) meet(u *Unit, segment string, now time.Time) bool {
	id := copyID{objectID{u.Tenant, u.Key}, segment}
	t := j.troubled[id]
	if t != nil {
		if t.walk = j.number; t.failures > j.engine.cfg.Retries {
			j.found.failed++
			j.found.note(u, segment, t.why)
			return true
		}
	}
	j.found.waiting++
	if m, moving := j.moves[id.objectID]; moving {
		if m.segment != segment {
			j.block(u, segment, "another copy of it is being moved")
		}
		return true
	}
	if u.Blocked != "" {
		j.block(u, segment, u.Blocked)
		return true
	}
	target, ok := j.engine.pool.Target(segment, *u, j.Spec.Targets)
	if !ok {
		j.block(u, segment, "no segment can take it")
		return true
	}
	spec := model.TaskSpec{Kind: model.MoveObject, Tenant: u.Tenant, Key: u.Key, Source: segment, Targets: []string{target}}
	task, err := j.engine.pool.StartMove(spec)
	switch {
	case err == nil:
		j.moves[id.objectID] = move{task: task, segment: segment, size: u.Size}
		j.found.started++
		j.Updated = now
	case errs.Is(err, errs.TaskPendingLimitExceeded):
		j.found.waiting--
		return false
	case gone(err):
		j.found.waiting--
	case passing(err):
		j.block(u, segment, err.Error())
	default:
		j.failed(id, err.Error())
	}
	return true
}

// collect checks which moves in progress have ended, and how.
func (j *job) collect(now time.Time) {
	for id, m := range j.moves {
		t, err := j.engine.pool.Move(m.task)
		if err == nil && t.Status != model.TaskSuccess && t.Status != model.TaskFailed {
			continue
		}
		delete(j.moves, id)
		j.Updated = now
		if soon := now.Add(j.engine.cfg.Interval); soon.Before(j.nextWalk) {
			j.nextWalk, j.pause = soon, 0
		}
		switch {
		case err != nil:
			// It ended and is forgotten. The next walk sees whether it went well.
		case t.Status == model.TaskSuccess:
			j.Succeeded++
			j.MigratedBytes += m.size
			j.improved = now
			delete(j.troubled, copyID{id, m.segment})
		default:
			j.failed(copyID{id, m.segment}, t.Message)
		}
	}
}

// failed notes that a move failed.
func (j *job) failed(id copyID, why string) {
	t := j.troubled[id]
	if t == nil {
		t = &trouble{}
		j.troubled[id] = t
	}
	t.failures++
	t.why, t.walk = why, j.number
	if t.failures > j.engine.cfg.Retries {
		j.Failed++
	}
}
