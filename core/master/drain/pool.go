package drain

import "github.com/mooncake-go/mooncake/core/model"

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
