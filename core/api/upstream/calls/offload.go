package calls

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
)

// The requests of clients that keep objects on a disk of their own.
type (
	// MountLocalDiskSegmentRequest says that a client keeps objects on its disk.
	MountLocalDiskSegmentRequest struct {
		Client model.UUID
		Enable bool // The client wants objects to offload.
	}
	// NotifyOffloadSuccessRequest names objects that a client has written to its disk.
	NotifyOffloadSuccessRequest struct {
		Client  model.UUID
		Objects []OffloadTask // Before V12, they have keys only.
		Places  []StorageObjectMetadata
	}
	// ReportSsdCapacityRequest is the size of a client's disk.
	ReportSsdCapacityRequest struct {
		Client   model.UUID
		Capacity int64 // in bytes
	}
	// PromotionAllocStartRequest asks for memory into which a client copies an object from its disk.
	PromotionAllocStartRequest struct {
		Client    model.UUID
		Key       string
		Tenant    string
		Size      uint64
		Preferred []string // names of segments
	}
)

// The names of requests that have the shape of another.
type (
	// OffloadObjectHeartbeatRequest asks for objects to offload.
	OffloadObjectHeartbeatRequest = MountLocalDiskSegmentRequest
	// UnmountLocalDiskSegmentRequest names the client.
	UnmountLocalDiskSegmentRequest = PingRequest
	// PollRemoveAllRequest names the client.
	PollRemoveAllRequest = PingRequest
	// PromotionObjectHeartbeatRequest names the client.
	PromotionObjectHeartbeatRequest = PingRequest
	// NotifyPromotionSuccessRequest ends a promotion.
	NotifyPromotionSuccessRequest = CopyEndRequest
	// NotifyPromotionFailureRequest revokes a promotion.
	NotifyPromotionFailureRequest = CopyEndRequest
)

// OffloadTask is an object that a client moves between its memory and its disk.
type OffloadTask struct {
	Tenant string // since V12
	Key    string
	Size   int64 // in bytes
}

// StorageObjectMetadata is where an object lies on a client's disk.
type StorageObjectMetadata struct {
	Bucket   int64
	Offset   int64
	KeySize  int64
	DataSize int64
	Endpoint string
}

// PromotionAllocStartResponse is the memory for a promotion.
type PromotionAllocStartResponse struct{ Memory Descriptor }

func (r *MountLocalDiskSegmentRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Bool(&r.Enable)
	c.End()
}

func (r *NotifyOffloadSuccessRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	if c.Version() >= V12 {
		structpack.Vector(c, &r.Objects, (*OffloadTask).walk)
	} else {
		structpack.Vector(c, &r.Objects, (*OffloadTask).walkKey)
	}
	structpack.Vector(c, &r.Places, (*StorageObjectMetadata).walk)
	c.End()
}

func (r *ReportSsdCapacityRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.Int64(&r.Capacity)
	c.End()
}

func (r *PromotionAllocStartRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Client)
	c.String(&r.Key)
	walkTenant(c, &r.Tenant)
	c.Uint64(&r.Size)
	c.Strings(&r.Preferred)
	c.End()
}

func (t *OffloadTask) walk(c *Coder) {
	c.Begin()
	c.String(&t.Tenant)
	c.String(&t.Key)
	c.Int64(&t.Size)
	c.End()
}

func (t *OffloadTask) walkKey(c *Coder) { c.String(&t.Key) }

func (t *OffloadTask) walkEntry(c *Coder) {
	c.String(&t.Key)
	c.Int64(&t.Size)
}

// walkOffloadTasks visits tasks, which before V12 are a map from keys to sizes.
func walkOffloadTasks(v *[]OffloadTask, c *Coder) {
	if c.Version() >= V12 {
		structpack.Vector(c, v, (*OffloadTask).walk)
	} else {
		structpack.Map(c, v, (*OffloadTask).walkEntry)
	}
}

func (m *StorageObjectMetadata) walk(c *Coder) {
	c.Begin()
	c.Int64(&m.Bucket)
	c.Int64(&m.Offset)
	c.Int64(&m.KeySize)
	c.Int64(&m.DataSize)
	c.String(&m.Endpoint)
	c.End()
}

func (r *PromotionAllocStartResponse) walk(c *Coder) {
	c.Begin()
	r.Memory.walk(c)
	c.End()
}
