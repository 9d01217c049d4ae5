// Package drain empties segments by moving their objects elsewhere.
//
// A job takes its segments out of use for new objects and then walks over what lies on
// them, again and again, until a walk finds nothing. Every object it meets that can be
// moved becomes a task for the client that owns the segment, up to so many at a time. An
// object that cannot be moved now, since it is leased or being written, is met again on the
// next walk. Nothing new can arrive, so a job ends.
//
// It ends well when the segments are empty (they are DRAINED then), and otherwise when an
// object could not be moved in several attempts, when a segment went away or was put to
// other use, or when nothing has got better for a long time: with a message that says which
// objects stand in the way and why, and with the segments back in use.
//
//	CREATED    the segments take no more objects
//	PLANNING   the first walk counts what there is
//	RUNNING    objects are moved
//	SUCCEEDED  FAILED  CANCELED
package drain

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// MaxConcurrency is how many moves one job may have in progress.
	MaxConcurrency = 1024
	// MaxSegments is how many segments a job may name, and how many targets.
	MaxSegments = 1024
)

// Config says how jobs are driven.
type Config struct {
	// Interval is how often jobs are looked after when nothing wakes the engine.
	Interval time.Duration
	// Retries is how often the move of one object is tried again.
	Retries int
	// NoProgress is how long a job may go on without anything getting better.
	NoProgress time.Duration
	// KeepJobs is how many jobs are remembered after their end.
	KeepJobs int
	// MaxJobs is how many may be unfinished.
	MaxJobs int
}

// DefaultConfig returns upstream's tick and retries, and our bounds.
func DefaultConfig() Config {
	return Config{Interval: 500 * time.Millisecond, Retries: 3, NoProgress: 10 * time.Minute, KeepJobs: 100, MaxJobs: 64}
}

// Engine runs drain jobs. It is safe for concurrent use.
type Engine struct {
	cfg  Config
	pool Pool
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex
	jobs    map[model.JobID]*job
	active  []*job // unfinished, in the order of creation
	ended   []model.JobID
	stopped bool
}

// New returns an engine without jobs. Jobs only advance while Run runs.
func New(cfg Config, pool Pool, log *slog.Logger) *Engine {
	return &Engine{cfg: cfg, pool: pool, log: log, wake: make(chan struct{}, 1), jobs: map[model.JobID]*job{}}
}

// Run drives the jobs until ctx ends, by the times that now gives; it is called once. Jobs that are unfinished then fail,
// and further ones are refused: what they would know is gone with the master.
func (e *Engine) Run(ctx context.Context, now func() time.Time) {
	ticker := time.NewTicker(e.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			e.stop(now())
			return
		case <-ticker.C:
		case <-e.wake:
		}
		if e.Step(now()) {
			e.Wake()
		}
	}
}

// Wake has the jobs looked after at once: a move has ended, for example. It never blocks.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Step looks after every job once, for a bounded time, and reports whether one of them
// wants to go on at once. Run calls it.
func (e *Engine) Step(now time.Time) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.active {
		more = j.step(now) || more
	}
	e.retire()
	return more
}

// Create begins a job: from now on the segments take no more objects. InvalidParams,
// SegmentNotFound, UnavailableInCurrentStatus for a segment that is not OK, when too many
// jobs are unfinished, or when the master is stopping.
func (e *Engine) Create(spec model.DrainSpec, now time.Time) (model.JobID, error) {
	const op = "drain job: create"
	if err := validate(&spec); err != nil {
		return model.JobID{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return model.JobID{}, errs.New(errs.UnavailableInCurrentStatus, op, "the master is stopping")
	}
	if len(e.active) >= e.cfg.MaxJobs {
		return model.JobID{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "%d jobs are unfinished, the most there may be", len(e.active)),
			"wait for one to end, or cancel one")
	}
	for _, name := range slices.Concat(spec.Segments, spec.Targets) {
		if !e.pool.Exists(name) {
			return model.JobID{}, errs.New(errs.SegmentNotFound, op, "no segment %q is mounted", name)
		}
	}
	// A job whose segment went and came back must not take the new job's for its own.
	for _, j := range e.active {
		j.holds(now)
	}
	e.retire()
	if err := e.pool.SetDraining(spec.Segments); err != nil {
		return model.JobID{}, errs.Wrap(errs.CodeOf(err), op, err)
	}
	j := newJob(e, spec, now)
	e.jobs[j.ID] = j
	e.active = append(e.active, j)
	e.log.Info("drain job created", "job", j.ID, "segments", spec.Segments, "targets", spec.Targets)
	e.Wake()
	return j.ID, nil
}

// Query returns a job, or JobNotFound.
func (e *Engine) Query(id model.JobID) (model.DrainJob, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[id]
	if j == nil {
		return model.DrainJob{}, e.unknown("drain job: query", id)
	}
	return j.snapshot(), nil
}

// Cancel gives a job up and puts its segments back into use. JobNotFound, or
// UnavailableInCurrentStatus when it has ended or while moves are in progress. Then the job
// begins no further moves for 30 seconds, so that a retry succeeds.
func (e *Engine) Cancel(id model.JobID, now time.Time) error {
	const op = "drain job: cancel"
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[id]
	switch {
	case j == nil:
		return e.unknown(op, id)
	case j.Status.Final():
		return errs.New(errs.UnavailableInCurrentStatus, op, "job %s has ended already (%s)", id, j.Status)
	}
	if j.collect(now); len(j.moves) > 0 {
		j.heldUntil = now.Add(cancelHold)
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "%d moves of job %s are in progress", len(j.moves), id),
			"no further ones begin for %s; ask again when these have ended", cancelHold)
	}
	j.end(model.JobCanceled, "canceled", now)
	e.retire()
	return nil
}

// cancelHold is how long a job begins no moves after it could not be canceled.
const cancelHold = 30 * time.Second

// Running returns how many jobs are unfinished.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.active)
}

func (e *Engine) stop(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, j := range e.active {
		j.end(model.JobFailed, "the master stopped", now)
	}
	e.retire()
}

// retire moves jobs that ended to those that are remembered.
func (e *Engine) retire() {
	e.active = slices.DeleteFunc(e.active, func(j *job) bool {
		if j.Status.Final() {
			e.ended = append(e.ended, j.ID)
		}
		return j.Status.Final()
	})
	for len(e.ended) > e.cfg.KeepJobs {
		delete(e.jobs, e.ended[0])
		e.ended = slices.Delete(e.ended, 0, 1)
	}
}

func (e *Engine) unknown(op string, id model.JobID) error {
	return errs.New(errs.JobNotFound, op, "no job %s; of those that ended the last %d are remembered", id, e.cfg.KeepJobs)
}

// validate checks a specification and makes it the job's own.
func validate(spec *model.DrainSpec) error {
	const op = "drain job: create"
	spec.Segments, spec.Targets = slices.Clone(spec.Segments), slices.Clone(spec.Targets)
	switch {
	case len(spec.Segments) == 0 || len(spec.Segments) > MaxSegments || len(spec.Targets) > MaxSegments:
		return errs.New(errs.InvalidParams, op, "it names %d segments and %d targets; 1 to %[3]d and 0 to %[3]d are allowed",
			len(spec.Segments), len(spec.Targets), MaxSegments)
	case spec.MaxConcurrency < 1 || spec.MaxConcurrency > MaxConcurrency:
		return errs.New(errs.InvalidParams, op, "max_concurrency is %d; it is 1 to %d", spec.MaxConcurrency, MaxConcurrency)
	}
	named := map[string]bool{}
	for _, name := range slices.Concat(spec.Segments, spec.Targets) {
		if name == "" || named[name] {
			return errs.New(errs.InvalidParams, op, "segment %q has no name, or is named twice; what is to be emptied cannot be filled", name)
		}
		named[name] = true
	}
	return nil
}

// Unit is an object with a copy on a segment that is drained.
type Unit struct {
	Tenant model.Tenant
	Key    model.Key
	Size   uint64
	// Blocked says in a few words why it cannot be moved now ("leased", "being written");
	// empty is that it can. A pin is no reason: it goes along.
	Blocked string
}

// Pool is the master as a job sees it. The engine calls it one call at a time, with its own
// lock held: none of it may call the engine, but for Wake, or wait for long.
type Pool interface {
	// Exists reports whether a segment of that name is mounted.
	Exists(segment string) bool
	// SetDraining takes all segments of those names out of use for new objects, or none.
	// SegmentNotFound, UnavailableInCurrentStatus for one that is not OK.
	SetDraining(segments []string) error
	// StillDraining is nil while segments of that name are mounted and all of them are
	// DRAINING; otherwise the error says what is the case.
	StillDraining(segment string) error
	// SetDrained makes DRAINED of what is DRAINING, and SetOK puts it back into use. It skips a
	// segment that is gone or has another status by now.
	SetDrained(segments []string)
	SetOK(segments []string)
	// Units appends objects that have a copy on the segment, also one that is being
	// written, and returns the cursor for the next call; 0 begins a walk, and is returned
	// at its end. It may append nothing before the end, so that no call takes long, and at
	// most about a thousand. An object that is there from the first to the last call of a
	// walk is returned at least once.
	Units(segment string, cursor uint64, dst []Unit) (units []Unit, next uint64)
	// Target chooses where to move an object of the segment: the least used one that may
	// take it and has no copy, among candidates (empty is any). False is that there is none.
	Target(segment string, u Unit, candidates []string) (string, bool)
	// StartMove has a move carried out. Errors as of creating the task.
	StartMove(spec model.TaskSpec) (model.TaskID, error)
	// Move returns the task, or TaskNotFound when it ended and is forgotten.
	Move(id model.TaskID) (model.Task, error)
}
