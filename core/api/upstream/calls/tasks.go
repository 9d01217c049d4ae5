package calls

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
)

// TaskType is what a task does.
type TaskType int32

// The types of tasks.
const (
	TaskCopy TaskType = 0
	TaskMove TaskType = 1
)

// TaskStatus is the state of a task.
type TaskStatus int32

// The states of a task.
const (
	TaskPending    TaskStatus = 0
	TaskProcessing TaskStatus = 1
	TaskFailed     TaskStatus = 2
	TaskSuccess    TaskStatus = 3
)

// The requests on copies, moves and tasks. Segments have their names.
type (
	// CreateCopyTaskRequest asks for a task that copies an object to segments.
	CreateCopyTaskRequest struct {
		Key     string
		Tenant  string
		Targets []string
	}
	// CreateMoveTaskRequest asks for a task that moves an object.
	CreateMoveTaskRequest struct{ Key, Tenant, Source, Target string }
	// QueryTaskRequest names a task.
	QueryTaskRequest struct{ Task model.UUID }
	// FetchTasksRequest asks for the tasks of a client.
	FetchTasksRequest struct {
		Client model.UUID
		Most   uint64
	}
	// MarkTaskToCompleteRequest says how a task of a client has ended.
	MarkTaskToCompleteRequest struct {
		Client model.UUID
		Task   TaskComplete
	}
	// TaskComplete is the end of a task.
	TaskComplete struct {
		ID      model.UUID
		Status  TaskStatus
		Message string
	}
	// CopyStartRequest begins a copy.
	CopyStartRequest struct {
		Client  model.UUID
		Key     string
		Tenant  string
		Source  string
		Targets []string
	}
	// CopyEndRequest ends or revokes a copy, a move or a promotion.
	CopyEndRequest struct {
		Client model.UUID
		Key    string
		Tenant string
	}
	// MoveStartRequest begins a move.
	MoveStartRequest struct {
		Client                      model.UUID
		Key, Tenant, Source, Target string
	}
	// DynamicReplicaCopyStartRequest begins a copy that the master has ordered.
	DynamicReplicaCopyStartRequest struct {
		Client  model.UUID
		Key     string
		Tenant  string
		Source  string
		Targets []string
		Lease   model.UUID
		Epoch   uint64 // of the version
	}
	// DynamicReplicaCopyEndRequest ends or revokes such a copy.
	DynamicReplicaCopyEndRequest struct {
		Client model.UUID
		Key    string
		Tenant string
		Lease  model.UUID
		Epoch  uint64
	}
)

// The names of requests that have the shape of another.
type (
	// CopyRevokeRequest revokes a copy.
	CopyRevokeRequest = CopyEndRequest
	// MoveEndRequest ends a move.
	MoveEndRequest = CopyEndRequest
	// MoveRevokeRequest revokes a move.
	MoveRevokeRequest = CopyEndRequest
	// DynamicReplicaCopyRevokeRequest revokes a copy.
	DynamicReplicaCopyRevokeRequest = DynamicReplicaCopyEndRequest
)

// The results of calls on copies, moves and tasks.
type (
	// QueryTaskResponse is a task.
	QueryTaskResponse struct {
		ID      model.UUID
		Type    TaskType
		Status  TaskStatus
		Created int64 // in milliseconds since 1970
		Updated int64 // the same
		Client  model.UUID
		Message string
	}
	// TaskAssignment is a task for the client that has fetched it.
	TaskAssignment struct {
		ID      model.UUID
		Type    TaskType
		Payload string // the arguments in JSON
		Created int64  // in milliseconds since 1970
		Retries uint32 // the most attempts, since V10
	}
	// CopyStartResponse is what to copy, and where to.
	CopyStartResponse struct {
		Source  Descriptor
		Targets []Descriptor
	}
	// MoveStartResponse is what to move, and where to.
	MoveStartResponse struct {
		Source Descriptor
		Target Optional[Descriptor]
	}
)

func (r *CreateCopyTaskRequest) walk(c *Coder) {
	c.Begin()
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.Strings(&r.Targets)
	c.End()
}

func (r *CreateMoveTaskRequest) walk(c *Coder) {
	c.Begin()
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.String(&r.Source)
	c.String(&r.Target)
	c.End()
}

func (r *QueryTaskRequest) walk(c *Coder) { c.UUID(&r.Task) }

func (r *FetchTasksRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Uint64(&r.Most)
	c.End()
}

func (r *MarkTaskToCompleteRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	r.Task.walk(c)
	c.End()
}

func (t *TaskComplete) walk(c *Coder) {
	c.Begin()
	c.UUID(&t.ID)
	c.Int32((*int32)(&t.Status))
	c.String(&t.Message)
	c.End()
}

func (r *CopyStartRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.String(&r.Source)
	c.Strings(&r.Targets)
	c.End()
}

func (r *CopyEndRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.End()
}

func (r *MoveStartRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.String(&r.Source)
	c.String(&r.Target)
	c.End()
}

func (r *DynamicReplicaCopyStartRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	c.String(&r.Tenant)
	c.String(&r.Source)
	c.Strings(&r.Targets)
	c.UUID(&r.Lease)
	c.Uint64(&r.Epoch)
	c.End()
}

func (r *DynamicReplicaCopyEndRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	c.String(&r.Tenant)
	c.UUID(&r.Lease)
	c.Uint64(&r.Epoch)
	c.End()
}

func (t *QueryTaskResponse) walk(c *Coder) {
	c.Begin()
	c.UUID(&t.ID)
	c.Int32((*int32)(&t.Type))
	c.Int32((*int32)(&t.Status))
	c.Int64(&t.Created)
	c.Int64(&t.Updated)
	c.UUID(&t.Client)
	c.String(&t.Message)
	c.End()
}

func (t *TaskAssignment) walk(c *Coder) {
	c.Begin()
	c.UUID(&t.ID)
	c.Int32((*int32)(&t.Type))
	c.String(&t.Payload)
	c.Int64(&t.Created)
	if c.Version() >= V10 {
		c.Uint32(&t.Retries)
	}
	c.End()
}

func (r *CopyStartResponse) walk(c *Coder) {
	c.Begin()
	r.Source.walk(c)
	structpack.Vector(c, &r.Targets, (*Descriptor).walk)
	c.End()
}

func (r *MoveStartResponse) walk(c *Coder) {
	c.Begin()
	r.Source.walk(c)
	structpack.Optional(c, &r.Target.Present, &r.Target.Value, (*Descriptor).walk)
	c.End()
}
