package drain

import (
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// pagesPerStep bounds how long one step takes.
	pagesPerStep = 32
	// maxTroubled bounds the objects of a job whose moves have failed and not yet succeeded. If
	// there are more, the fault is in the pool rather than in the objects.
	maxTroubled = 1000
	// maxPause is the longest wait between walks on which a job can begin no move.
	maxPause = 10 * time.Second
)

type objectID struct {
	tenant model.Tenant
	key    model.Key
}

// copyID identifies one copy of an object, which the contract calls a unit.
type copyID struct {
	objectID
	segment string
}

// move is a move in progress. An object has at most one at a time, of any of its copies.
type move struct {
	task    model.TaskID
	segment string
	size    uint64
}

// trouble is a unit whose move has failed.
type trouble struct {
	failures int
	why      string // of the last failure
	walk     int    // the last walk that met it
}

// job is a drain job. The engine's lock guards it.
type job struct {
	model.DrainJob
	engine *Engine

	moves    map[objectID]move
	troubled map[copyID]*trouble

	walk      walk
	number    int // of the walk
	found     tally
	before    tally // of the walk before
	least     int   // units that were waiting on the walk that found the fewest
	empty     int   // walks in a row that found nothing
	nextWalk  time.Time
	pause     time.Duration
	improved  time.Time // of the latest progress
	heldUntil time.Time // begins no moves before
}

func newJob(e *Engine, spec model.DrainSpec, now time.Time) *job {
	j := &job{
		engine: e, moves: map[objectID]move{}, troubled: map[copyID]*trouble{}, improved: now,
		DrainJob: model.DrainJob{ID: model.NewUUID(), Spec: spec, Status: model.JobCreated, Created: now, Updated: now},
	}
	return j
}

// step advances the job and reports whether the next step is due at once.
func (j *job) step(now time.Time) bool {
	j.collect(now)
	if !j.holds(now) {
		return false
	}
	if len(j.troubled) > maxTroubled {
		j.end(model.JobFailed, list(len(j.troubled), "could not be moved", j.troubles()), now)
		return false
	}
	if now.Sub(j.improved) >= j.engine.cfg.NoProgress {
		j.end(model.JobFailed, fmt.Sprintf("nothing has got better for %s; %s", j.engine.cfg.NoProgress, j.obstacles()), now)
		return false
	}
	switch j.Status {
	case model.JobCreated:
		j.enter(model.JobPlanning, now)
		j.begin()
		fallthrough
	case model.JobPlanning:
		return j.plan(now)
	}
	return j.run(now)
}

// holds ends the job if one of its segments no longer belongs to it.
func (j *job) holds(now time.Time) bool {
	for _, s := range j.Spec.Segments {
		if err := j.engine.pool.StillDraining(s); err != nil {
			j.end(model.JobFailed, fmt.Sprintf("segment %q can be drained no more: %v", s, err), now)
			return false
		}
	}
	return true
}

// plan counts the units to move.
func (j *job) plan(now time.Time) bool {
	for budget := pagesPerStep; ; j.walk.at++ {
		u, segment := j.walk.unit(&budget)
		if u == nil {
			break
		}
		j.found.waiting++
		j.found.bytes += u.Size
		if u.Blocked != "" {
			j.block(u, segment, u.Blocked)
		}
	}
	if !j.walk.over() {
		return true
	}
	j.enter(model.JobRunning, now)
	j.Message = fmt.Sprintf("%d objects of %d bytes are to be moved", j.found.waiting, j.found.bytes)
	j.before, j.least, j.Blocked = j.found, j.found.waiting, uint64(j.found.blocked)
	j.begin()
	return true
}

// run begins moves as the walk meets objects.
func (j *job) run(now time.Time) bool {
	if now.Before(j.heldUntil) || now.Before(j.nextWalk) {
		return false
	}
	for budget := pagesPerStep; ; {
		u, segment := j.walk.unit(&budget)
		if u == nil {
			break
		}
		if len(j.moves) >= j.Spec.MaxConcurrency || !j.meet(u, segment, now) {
			return false // The end of a move or the next tick continues from here.
		}
		j.walk.at++
	}
	if !j.walk.over() {
		return true
	}
	j.finishWalk(now)
	return false
}

// begin starts a walk.
func (j *job) begin() {
	j.number++
	j.walk = walk{pool: j.engine.pool, segments: slices.Clone(j.Spec.Segments)}
	j.found = tally{}
}

// finishWalk decides from the result of a walk whether the job is done, has made progress, or has
// to wait.
func (j *job) finishWalk(now time.Time) {
	for id, t := range j.troubled {
		if _, moving := j.moves[id.objectID]; t.walk < j.number && !moving {
			delete(j.troubled, id) // a client removed it
		}
	}
	f := j.found
	j.Blocked, j.Failed, j.Updated = uint64(f.blocked), uint64(f.failed), now
	if f.waiting > 0 || len(j.moves) > 0 {
		j.empty = 0
	} else if j.empty++; j.empty >= 2 {
		// Twice, since an object that was allocated before the segment closed may have entered
		// the table behind the first walk.
		if f.failed > 0 {
			j.end(model.JobFailed, list(f.failed, "could not be moved", f.why), now)
		} else {
			j.end(model.JobSucceeded, "", now)
		}
		return
	}
	if f.waiting < j.least {
		j.least, j.improved = f.waiting, now
	}
	j.Message = ""
	if f.blocked+f.failed > 0 {
		j.Message = list(f.blocked+f.failed, "stand in the way", f.why)
	}
	j.before = f
	if j.pause = min(max(2*j.pause, j.engine.cfg.Interval), maxPause); f.started > 0 || j.empty > 0 {
		j.pause = j.engine.cfg.Interval
	}
	j.nextWalk = now.Add(j.pause)
	j.begin()
}

func (j *job) enter(s model.JobStatus, now time.Time) { j.Status, j.Updated = s, now }

// end ends the job and sets the final status of its segments.
func (j *job) end(s model.JobStatus, message string, now time.Time) {
	if n := len(j.moves); n > 0 {
		message += fmt.Sprintf("; %d moves are in progress and end by themselves", n)
	}
	j.enter(s, now)
	j.Message = message
	j.moves, j.troubled, j.walk = nil, nil, walk{}
	if s == model.JobSucceeded {
		j.Blocked = 0
		j.engine.pool.SetDrained(j.Spec.Segments)
	} else {
		j.engine.pool.SetOK(j.Spec.Segments)
	}
	j.engine.log.Info("drain job ended", "job", j.ID, "status", s.String(), "moved", j.Succeeded, "bytes", j.MigratedBytes, "message", message)
}

// obstacles names the objects that block the job.
func (j *job) obstacles() string {
	f := j.before
	if len(f.why) == 0 {
		f = j.found
	}
	switch {
	case len(f.why) > 0:
		return list(f.blocked+f.failed, "stand in the way", f.why)
	case len(j.moves) > 0:
		return list(len(j.moves), "are being moved", inProgress(j.moves))
	}
	return "too many tasks wait already for one more (max_total_pending_tasks); see why the clients do not fetch theirs"
}

func (j *job) troubles() []string {
	var out []string
	for id, t := range j.troubled {
		if len(out) < maxListed {
			out = append(out, fmt.Sprintf("%s on %s (%s)", brief(id.key), id.segment, t.why))
		}
	}
	return out
}

func (j *job) snapshot() model.DrainJob {
	s := j.DrainJob
	s.Spec.Segments, s.Spec.Targets = slices.Clone(s.Spec.Segments), slices.Clone(s.Spec.Targets)
	s.Active = uint64(len(j.moves))
	return s
}

func (j *job) block(u *Unit, segment, why string) {
	j.found.blocked++
	j.found.note(u, segment, why)
}

// gone reports whether an error means that the unit no longer exists.
func gone(err error) bool {
	switch errs.CodeOf(err) {
	case errs.ObjectNotFound, errs.ReplicaNotFound, errs.ReplicaIsGone:
		return true
	}
	return false
}

// passing reports whether an error means that the object cannot be moved at the moment, rather than
// that the move failed.
func passing(err error) bool {
	switch errs.CodeOf(err) {
	case errs.ObjectHasLease, errs.ObjectHasReplicationTask, errs.ObjectReplicaBusy, errs.ReplicaIsNotReady,
		errs.NoAvailableHandle, errs.SegmentNotFound, errs.UnavailableInCurrentStatus:
		return true
	}
	return false
}
