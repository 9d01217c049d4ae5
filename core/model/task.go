package model

import "time"

// CopyKind says whether the source of a copy stays.
type CopyKind uint8

// The kinds; the numbers are upstream's.
const (
	CopyObject CopyKind = 0
	MoveObject CopyKind = 1
)

// String returns "copy" or "move".
func (k CopyKind) String() string {
	if k == MoveObject {
		return "move"
	}
	return "copy"
}

// CopyPlan is what whoever carries out a copy has to do: read Source and write every one
// of Targets, which may be none when the copies are there already.
type CopyPlan struct {
	Source   Replica
	Targets  []Replica
	Checksum Checksum
}

// TaskID identifies a task.
type TaskID = UUID

// TaskStatus is where a task stands. The numbers are upstream's.
type TaskStatus int32

// The states of a task.
const (
	TaskPending    TaskStatus = 0
	TaskProcessing TaskStatus = 1
	TaskFailed     TaskStatus = 2
	TaskSuccess    TaskStatus = 3
)

// String returns upstream's name of the status.
func (s TaskStatus) String() string {
	names := [...]string{"PENDING", "PROCESSING", "FAILED", "SUCCESS"}
	if s < 0 || int(s) >= len(names) {
		return "UNDEFINED"
	}
	return names[s]
}

// TaskSpec is a copy or move that the master gives to a client to carry out.
type TaskSpec struct {
	Kind    CopyKind
	Tenant  Tenant
	Key     Key
	Source  string   // name of the segment to read from; for a copy empty is any
	Targets []string // names of segments; exactly one for a move
}

// Task is a task as the master remembers it.
type Task struct {
	ID       TaskID
	Spec     TaskSpec
	Status   TaskStatus
	Created  time.Time
	Updated  time.Time
	Assigned ClientID
	Message  string // why it failed
}

// Assignment is a task for the client that fetched it.
type Assignment struct {
	ID      TaskID
	Spec    TaskSpec
	Created time.Time
	// MaxRetries is how often to try again when there is no room (NoAvailableHandle).
	MaxRetries uint32
}
