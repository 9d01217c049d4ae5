package calls

import (
	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
	"github.com/mooncake-go/mooncake/core/model"
)

// ClientStatus is what a ping tells a client of itself.
type ClientStatus int32

// The states of a client. One that needs to remount sends its segments again.
const (
	ClientOK          ClientStatus = 1
	ClientNeedRemount ClientStatus = 2
)

// SegmentStatus is the state of a segment.
type SegmentStatus int32

// The states of a segment.
const (
	SegmentUndefined            SegmentStatus = 0
	SegmentOK                   SegmentStatus = 1
	SegmentDraining             SegmentStatus = 2
	SegmentDrained              SegmentStatus = 3
	SegmentGracefullyUnmounting SegmentStatus = 4
	SegmentUnmounting           SegmentStatus = 5
)

// The requests on clients and segments.
type (
	// PingRequest names the client.
	PingRequest struct{ Client model.UUID }
	// MountSegmentRequest contributes a segment.
	MountSegmentRequest struct {
		Segment Segment
		Client  model.UUID
	}
	// ReMountSegmentRequest contributes segments to a master that may not know them any more.
	ReMountSegmentRequest struct {
		Segments []Segment
		Client   model.UUID
	}
	// UnmountSegmentRequest withdraws a segment.
	UnmountSegmentRequest struct{ Segment, Client model.UUID }
	// GracefulUnmountSegmentRequest withdraws a segment after some time.
	GracefulUnmountSegmentRequest struct {
		Segment model.UUID
		Client  model.UUID
		Grace   uint64 // in milliseconds
	}
	// MountNoFSegmentRequest contributes a NoF segment.
	MountNoFSegmentRequest struct {
		Segment NoFSegment
		Client  model.UUID
	}
	// ReMountNoFSegmentRequest contributes NoF segments again.
	ReMountNoFSegmentRequest struct {
		Segments []NoFSegment
		Client   model.UUID
	}
	// QuerySegmentStatusRequest names a segment.
	QuerySegmentStatusRequest struct{ Segment string }
	// QuerySegmentStatusByIDRequest names a segment by its identifier.
	QuerySegmentStatusByIDRequest struct{ Segment model.UUID }
	// BatchQueryIPRequest names clients.
	BatchQueryIPRequest struct{ Clients []model.UUID }
)

// The names of requests that have the shape of another.
type (
	// UnmountNoFSegmentRequest withdraws a NoF segment.
	UnmountNoFSegmentRequest = UnmountSegmentRequest
	// GetNoFSegmentsByNameRequest names a NoF segment.
	GetNoFSegmentsByNameRequest = QuerySegmentStatusRequest
)

// The results of calls on clients and segments.
type (
	// PingResponse is the state of a client.
	PingResponse struct {
		View   int64 // Clients ignore it.
		Status ClientStatus
	}
	// StorageConfig tells clients whether they keep objects in files as well.
	StorageConfig struct {
		FSDir    string // the folder, empty for no files
		Eviction bool   // Clients remove files if the quota is reached.
		Quota    uint64 // in bytes, 0 for no limit
	}
	// ClientIPs are the addresses of a client.
	ClientIPs struct {
		Client model.UUID
		IPs    []string
	}
)

func (r *PingRequest) walk(c *Coder) { c.UUID(&r.Client) }

func (r *MountSegmentRequest) walk(c *Coder) {
	c.Begin()
	r.Segment.walk(c)
	c.UUID(&r.Client)
	c.End()
}

func (r *ReMountSegmentRequest) walk(c *Coder) {
	c.Begin()
	structpack.Vector(c, &r.Segments, (*Segment).walk)
	c.UUID(&r.Client)
	c.End()
}

func (r *UnmountSegmentRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Segment)
	c.UUID(&r.Client)
	c.End()
}

func (r *GracefulUnmountSegmentRequest) walk(c *Coder) {
	c.Begin()
	c.UUID(&r.Segment)
	c.UUID(&r.Client)
	c.Uint64(&r.Grace)
	c.End()
}

func (r *MountNoFSegmentRequest) walk(c *Coder) {
	c.Begin()
	r.Segment.walk(c)
	c.UUID(&r.Client)
	c.End()
}

func (r *ReMountNoFSegmentRequest) walk(c *Coder) {
	c.Begin()
	structpack.Vector(c, &r.Segments, (*NoFSegment).walk)
	c.UUID(&r.Client)
	c.End()
}

func (r *QuerySegmentStatusRequest) walk(c *Coder) { c.String(&r.Segment) }

func (r *QuerySegmentStatusByIDRequest) walk(c *Coder) { c.UUID(&r.Segment) }

func (r *BatchQueryIPRequest) walk(c *Coder) { structpack.Vector(c, &r.Clients, walkUUID) }

func (r *PingResponse) walk(c *Coder) {
	c.Begin()
	c.Int64(&r.View)
	c.Int32((*int32)(&r.Status))
	c.End()
}

func (s *StorageConfig) walk(c *Coder) {
	c.Begin()
	c.String(&s.FSDir)
	c.Bool(&s.Eviction)
	c.Uint64(&s.Quota)
	c.End()
}

func (i *ClientIPs) walk(c *Coder) {
	c.UUID(&i.Client)
	c.Strings(&i.IPs)
}

func walkClientIPs(v *[]ClientIPs, c *Coder) { structpack.Map(c, v, (*ClientIPs).walk) }

func walkKeyReplicas(v *[]KeyReplicas, c *Coder) { structpack.Map(c, v, (*KeyReplicas).walk) }

func walkStatus(v *SegmentStatus, c *Coder) { c.Int32((*int32)(v)) }
