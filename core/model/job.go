package model

import "time"

// JobID identifies a drain job.
type JobID = UUID

// JobStatus is where a drain job stands. The numbers are upstream's.
type JobStatus int32

// The states of a job.
const (
	JobCreated   JobStatus = 0
	JobPlanning  JobStatus = 1
	JobRunning   JobStatus = 2
	JobSucceeded JobStatus = 3
	JobFailed    JobStatus = 4
	JobCanceled  JobStatus = 5
)

// String returns upstream's name of the status.
func (s JobStatus) String() string {
	names := [...]string{"CREATED", "PLANNING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"}
	if s < 0 || int(s) >= len(names) {
		return "UNDEFINED"
	}
	return names[s]
}

// Final reports whether the job will not change any more.
func (s JobStatus) Final() bool { return s >= JobSucceeded }

// DrainSpec asks for segments to be emptied by moving their objects elsewhere.
type DrainSpec struct {
	// Segments are the names of the segments to empty.
	Segments []string
	// Targets are the names of the segments that may take the objects; empty is any other.
	Targets []string
	// MaxConcurrency is how many moves may be in flight, at least 1.
	MaxConcurrency int
}

// DrainJob is a drain job as the master remembers it. A unit is one object on one segment.
type DrainJob struct {
	ID      JobID
	Spec    DrainSpec
	Status  JobStatus
	Created time.Time
	Updated time.Time
	// Succeeded and Failed units are done with, Blocked ones cannot be moved now (leased,
	// being written), Active ones are in flight.
	Succeeded, Failed, Blocked, Active uint64
	MigratedBytes                      uint64
	Message                            string
}
